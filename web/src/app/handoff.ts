/** Things that one page hands to the next without writing them into the address: a pasted curl line, the headers of a request. */

export interface Question {
  method: string;
  url: string;
  headers: [string, string][];
  client?: string;
  bodyBytes?: number;
}

let question: Question | null = null;

/** Keeps a question for the Explain page; headers may hold credentials, so they stay in memory. */
export function handQuestion(value: Question): void {
  question = value;
}

export function takeQuestion(): Question | null {
  const value = question;
  question = null;
  return value;
}
