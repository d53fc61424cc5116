/** Runs the commands that read an index and prints their results. */

import type { LocalIndex, SearchAnswer, SearchOptions } from '../contract.ts'
import { SearchFault } from '../fault.ts'
import { openIndex } from '../index-file.ts'
import { limitDefault, limitMax } from '../search/search.ts'
import { type Arguments, type OptionTable, readArguments, readLimit, wrongUse } from './arguments.ts'
import { helpTexts, overview } from './help.ts'
import { plain, print } from './output.ts'
import { renderAnswer, renderRecord, renderStats } from './render.ts'

export type Environment = Readonly<Record<string, string | undefined>>

export const exitFound = 0
export const exitNothing = 1
export const exitWrongUse = 2

type Command = (args: Arguments, env: Environment) => number

const common = { index: 'value', json: 'switch', help: 'switch' } as const
export const searchOptionTable = {
  ...common,
  limit: 'value',
  collection: 'value',
  status: 'value',
  tag: 'value',
  scoring: 'value',
} as const
const commands: Readonly<Record<string, { options: OptionTable; run: Command }>> = {
  search: { options: searchOptionTable, run: runSearch },
  get: { options: common, run: runGet },
  stats: { options: common, run: runStats },
}

/** `search`, `get`, `stats` and help; `index-jsonl` is another file, which these never load. */
export function runCommand(args: readonly string[], env: Environment): number {
  const name = args[0] ?? ''
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined
  return withFaults(args, () => {
    if (name === '--help' || name === 'help') return say(overview)
    if (!command)
      throw wrongUse(name === '' ? 'which command? (--help lists them)' : `unknown command ${name}`)
    const read = readArguments(args.slice(1), command.options)
    return read.switches.has('help') ? say(helpTexts[name]!) : command.run(read, env)
  })
}

/** One line on standard error, and with --json the same as the one document on standard output. */
export function withFaults(args: readonly string[], run: () => number): number {
  try {
    return run()
  } catch (error) {
    if (!(error instanceof SearchFault)) throw error
    const message = error.message.replaceAll(/\s*\n\s*/g, ' ')
    if (isJson(args)) print(1, `${JSON.stringify({ error: { code: error.code, message } })}\n`)
    print(2, `${plain(message)}\n`)
    return exitWrongUse
  }
}

/** Also where the arguments cannot be read. */
function isJson(args: readonly string[]): boolean {
  const end = args.indexOf('--')
  return args.slice(0, end === -1 ? undefined : end).includes('--json')
}

function say(text: string): number {
  print(1, `${text}\n`)
  return exitFound
}

function runSearch({ positional, values, switches }: Arguments, env: Environment): number {
  const query = positional.join(' ')
  const options = searchOptions(values)
  const hasFilter = [values.collection, values.status, values.tag].some((value) => value !== undefined)
  if (query.trim() === '' && !hasFilter) throw wrongUse('search needs a query')
  return withIndex(indexOf(values, env), (index) => {
    const answer = index.search(query, options)
    print(1, switches.has('json') ? `${JSON.stringify(answer)}\n` : tableOf(answer, index, env))
    return answer.results.length > 0 ? exitFound : exitNothing
  })
}

function searchOptions(values: Arguments['values']): SearchOptions {
  const { limit, scoring, collection, status, tag } = values
  if (scoring !== undefined && scoring !== 'bm25' && scoring !== 'literal') {
    throw wrongUse(`--scoring is ${JSON.stringify(scoring.slice(0, 60))}: bm25 or literal`)
  }
  return {
    limit: limit === undefined ? limitDefault : readLimit(limit, limitMax),
    ...(scoring === undefined ? {} : { scoring }),
    ...(collection === undefined ? {} : { collection }),
    ...(status === undefined ? {} : { status }),
    ...(tag === undefined ? {} : { tag }),
  }
}

function tableOf(answer: SearchAnswer, index: LocalIndex, env: Environment): string {
  const isTerminal = process.stdout.isTTY === true
  const width = isTerminal ? Math.max(process.stdout.columns ?? 100, 40) : 120
  const isColoured = isTerminal && !env.NO_COLOR
  return renderAnswer(answer, (id) => index.get(id), { width, isColoured })
}

function runGet({ positional, values, switches }: Arguments, env: Environment): number {
  const [id] = positional
  if (id === undefined || positional.length > 1) throw wrongUse('get needs one id')
  return withIndex(indexOf(values, env), (index) => {
    const record = index.get(id)
    if (!record) {
      const message = `there is no record ${JSON.stringify(id)}`
      if (switches.has('json')) print(1, `${JSON.stringify({ error: { code: 'not_found', message } })}\n`)
      else print(2, `${plain(message)}\n`)
      return exitNothing
    }
    print(1, switches.has('json') ? `${JSON.stringify(record)}\n` : renderRecord(record))
    return exitFound
  })
}

function runStats({ positional, values, switches }: Arguments, env: Environment): number {
  if (positional.length > 1) throw wrongUse('stats needs one index file')
  return withIndex(positional[0] ?? indexOf(values, env), (index) => {
    const stats = index.stats()
    print(1, switches.has('json') ? `${JSON.stringify(stats)}\n` : renderStats(stats))
    return exitFound
  })
}

export function indexOf(values: Arguments['values'], env: Environment): string {
  return values.index ?? (env.STIDX_INDEX || './index.stidx')
}

function withIndex(file: string, use: (index: LocalIndex) => number): number {
  const index = openIndex(file)
  try {
    return use(index)
  } finally {
    index.close()
  }
}
