/** Re-exported under their own names, as pages import them. */
export { Empty, Skeleton, errorText } from './Problem';
