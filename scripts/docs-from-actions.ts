/** Writes the commands of actions into docs/command-line.md; with `--check` it only compares. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { helpOf, wordOf } from '#cli/mount-actions.ts'
import type { Action, CommandLine } from '#operations/action.ts'
import { actions } from '#operations/list.ts'
import { writeOrCheck } from './made-page.ts'
import { projectRoot } from './source-files.ts'

const [begin, end] = ['<!-- made by `npm run docs:actions` -->', '<!-- end -->']

const rows = actions.flatMap((action) =>
  (action.cli ?? []).map((command) => `| \`${usageOf(action, command)}\` | ${helpOf(action, command)} |`),
)

function usageOf(action: Action, command: Command): string {
  const { name = action.name, positional = [], options = {} } = command
  // Where an argument has a place and an option, either will do.
  const required = (action.args.required ?? []).filter(
    (name) => !(positional.includes(name) && name in options),
  )
  const flags = Object.entries(options).map(([path, help]) => {
    const flag = `--${wordOf(path.split('.').at(-1)!, command)}`
    const usage = typeof help === 'string' ? flag : `${flag} ${help[0].toUpperCase()}`
    return required.includes(path) ? usage : `[${usage}]`
  })
  const given = positional.map((argument) => {
    const word = wordOf(argument, command).toUpperCase()
    return required.includes(argument) ? word : `[${word}]`
  })
  return ['flotilla', name, ...given, ...flags].join(' ')
}

type Command = CommandLine<Action['args'], unknown>

const page = readFileSync(join(projectRoot, 'docs/command-line.md'), 'utf8')
const [before, rest] = page.split(begin) as [string, string]
const after = rest.slice(rest.indexOf(end))
const table = ['', '', '| command | what it does |', '|---|---|', ...rows, '', '']
writeOrCheck('command-line.md', `${before}${begin}${table.join('\n')}${after}`, 'npm run docs:actions')
