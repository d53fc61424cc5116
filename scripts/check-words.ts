/** Fails when a text of the project uses a word that plain English does without: CONTRIBUTING.md says which and why. */

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { projectRoot } from './source-files.ts'

const rules: { pattern: RegExp; instead: string; headerOnly?: boolean }[] = [
  { pattern: /\b(?:anew)\b/i, instead: 'again, from scratch' },
  { pattern: /\b(?:beside)\b/i, instead: 'next to, alongside, while … runs' },
  { pattern: /\b(?:stands|stood)\b/i, instead: 'is, are, lies, remains, is kept' },
  { pattern: /\b(?:told)\b/i, instead: 'said, reported, answered' },
  { pattern: /\b(?:thereof|whereof|of one mind)\b/i, instead: 'of it, of which, agree' },
  // docs/monitoring.md says how operators find them.
  {
    pattern: /\blog\.(?:info|warn|error|fatal)\((?:.*, )?'(?![a-z-]+\.[a-z-]+')[^']*'\)/,
    instead: 'log messages as area.event, and the rest as fields',
  },
  // "A, B in; C out": says what flows, not what the file is for.
  {
    pattern: /^\/\*\* .*\bin[,;:] .*\bout\b/,
    instead: 'one sentence that says what the file is for',
    headerOnly: true,
  },
]

/**
 * Ways of saying things that plain English needs now and then, and this project used far too often. Each has a ceiling
 * that may only be lowered.
 */
const habits: { name: string; pattern: RegExp; linesMax: number; instead: string }[] = [
  {
    name: '"what is", "what was", "what comes" and the like',
    pattern: /\bwhat (?:is|was|were|comes|came|waits|has|had|goes|follows)\b/i,
    linesMax: 200,
    instead: 'name the thing: "pending records", not "what waits"',
  },
  {
    name: 'comments that begin with "Of"',
    pattern: /(?:^\s*(?:\*|\/\/|--)|\/\*\*) Of\b/,
    linesMax: 10,
    instead: 'begin with the subject or a verb',
  },
]
const habitual = /\.(ts|tsx|js|cjs|mjs|sql|md)$/

/** Texts of others, data, files made from published schemas, and this list. */
const skipped =
  /^(LICENSE|package-lock\.json|test\/data\/|bench\/data\/|test\/fixtures\/|packages\/stidx\/test\/data\/|scripts\/check-words\.ts|.*\.avsc$|schemas\/published\.json|schemas\/types\.ts|.*openapi.*\.json$)/

const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], {
  cwd: projectRoot,
  encoding: 'utf8',
})
  .split('\n')
  .filter((file) => /\.(ts|js|cjs|mjs|md|json|yml|yaml|html|css|tsx|sql)$/.test(file) && !skipped.test(file))

let faults = 0
const found = new Map(habits.map((habit) => [habit, [] as string[]]))
for (const file of files) {
  const lines = readFileSync(join(projectRoot, file), 'utf8').split('\n')
  for (const [at, line] of lines.entries()) {
    for (const [{ pattern }, places] of found)
      if (habitual.test(file) && pattern.test(line)) places.push(`${file}:${at + 1}`)
    // Published migrations are never changed.
    if (file.endsWith('.sql')) continue
    for (const { pattern, instead, headerOnly } of rules) {
      if (headerOnly && at > 0) continue
      const found = pattern.exec(line)
      if (!found) continue
      faults++
      console.error(`${file}:${at + 1} "${found[0].slice(0, 60)}": write ${instead}`)
    }
  }
}
for (const [{ name, linesMax, instead }, places] of found) {
  const excess = places.length - linesMax
  if (excess > 0) {
    faults += excess
    console.error(
      `${places.length} ${name}, at most ${linesMax}: ${instead}; ${places.slice(-10).join(', ')} …`,
    )
  } else console.log(`${places.length} ${name}, at most ${linesMax}`)
}
console.log(`${files.length} texts, ${faults} words to replace`)
process.exitCode = faults === 0 ? 0 : 1
