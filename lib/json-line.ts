/** JSON as a line of a stream: no reader may end the line within it. */

const separators = /[\u2028\u2029]/g

/** The same JSON. Some readers take these two for the ends of lines: in JSON they are only within texts. */
export function withoutSeparators(json: string): string {
  return json.replace(separators, (found) => (found === '\u2028' ? '\\u2028' : '\\u2029'))
}
