/** The page of one revision: the list with the revision beside it. */
export { default } from './ChangesPage';
