/** Makes a node's own words fit to be shown: one line, without paths and without the secrets of its headers. */

import type { RunNode } from '../types.ts'

const lengthMax = 500
const secretLengthMin = 8
const cut = '[cut]'

/** Folders and files, in the ways of POSIX and Windows. */
const path = /(?<![\w/:.-])(?:~?\/|\.{1,2}\/|[A-Za-z]:[\\/])[^\s'"`()<>,;]+/g

export function cleanerFor({ headers }: RunNode): (text: string) => string {
  const secrets = Object.values(headers)
    .flatMap((value) => [value, value.split(' ').at(-1) as string])
    .filter((value) => value.length >= secretLengthMin)
  return (text) => {
    const line = text
      .trimStart()
      .split(/[\r\n]/, 1)[0]!
      .slice(0, 4 * lengthMax)
    let clean = line.replace(path, cut)
    for (const secret of secrets) clean = clean.replaceAll(secret, cut)
    const shown = clean.replaceAll('\0', '').toWellFormed().trim()
    return shown.length > lengthMax
      ? `${shown.slice(0, lengthMax - 1).toWellFormed()}…`
      : shown || 'The agent failed.'
  }
}
