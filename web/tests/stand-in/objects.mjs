/** Objects, schemas, plans, plugins and certificates of the stand-in. */

/** Answers a call, or nothing when the path is of another part. */
export function handle(_call) {
  return undefined;
}
