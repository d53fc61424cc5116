/** The error for a faulty index file, input or command line, in one line for its reader. */

/** Ends a command with exit code 2; the message is one line. */
export class SearchFault extends Error {
  override readonly name = 'SearchFault'
  /** A fault of the words on the command line, of the input, or of the index file. */
  readonly code: 'wrong_use' | 'bad_input' | 'bad_index' | 'cannot_write'

  constructor(code: SearchFault['code'], message: string) {
    super(message)
    this.code = code
  }
}

/** A file that does not keep the rules of the format. */
export function badIndex(what: string): SearchFault {
  return new SearchFault('bad_index', what)
}
