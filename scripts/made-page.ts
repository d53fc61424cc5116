/** Writes a page of docs/ that is made from the code; with `--check` it only says whether the page is up to date. */

import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** `command` makes the page again. */
export function writeOrCheck(name: string, text: string, command: string): void {
  const page = fileURLToPath(new URL(`../docs/${name}`, import.meta.url))
  if (!process.argv.includes('--check')) {
    writeFileSync(page, text)
  } else if (readFileSync(page, 'utf8') !== text) {
    console.error(`docs/${name} is not what the code says: run \`${command}\` and commit.`)
    process.exitCode = 1
  }
}
