/** Mounts actions as commands of a noun: their arguments, options and help follow from the declaration. */

import { resolve } from 'node:path'
import { Argument, Option, type Command as Program } from 'commander'
import type { TObject, TSchema } from 'typebox'
import { AppError } from '#lib/errors.ts'
import { type AnySchema, phraseOf } from '#lib/schema-faults.ts'
import type { Action, CommandLine } from '#operations/action.ts'
import { type Cli, describe, numberReader, withWide } from './cli.ts'
import { oneLine } from './output.ts'

const standardInputMax = 1_048_576

/** `noun`: a command whose verbs they are, or the command itself of a name of one word. A name of three words has a noun of its own below it, which `nouns` describes. */
export function mountActions(
  noun: Program,
  cli: Cli,
  actions: readonly Action[],
  nouns: Readonly<Record<string, string>> = {},
): void {
  for (const action of actions) {
    for (const command of action.cli ?? []) {
      const [, ...words] = (command.name ?? action.name).split(' ')
      const verb = words.pop()
      const parent = words.reduce((above, word) => nounBelow(above, word, nouns[word] ?? ''), noun)
      mount(verb === undefined ? parent : parent.command(verb), cli, action, command)
    }
  }
}

/** One line of help; it begins small, as those of all commands. */
export function helpOf(action: Action, { summary = action.summary }: Command): string {
  return `${summary[0]!.toLowerCase()}${summary.slice(1)}`
}

function nounBelow(above: Program, name: string, text: string): Program {
  const known = above.commands.find((command) => command.name() === name)
  return known ?? above.command(name).description(text)
}

type Command = CommandLine<TObject, unknown>

function mount(program: Program, cli: Cli, action: Action, command: Command): void {
  const { positional = [], options = {}, folders = [], standardInput, example, gather } = command
  program.description(helpOf(action, command))
  for (const name of positional) {
    const schema = schemaAt(action.args, [name])
    const word = wordOf(name, command)
    // Where an option says it as well, either will do.
    const isRequired = (action.args.required?.includes(name) ?? false) && !(name in options)
    const argument = new Argument(isRequired ? `<${word}>` : `[${word}]`, schema.description)
    const choices = choicesOf(schema)
    program.addArgument(choices ? argument.choices(choices) : argument.argParser(readerOf(schema)))
  }
  const read = Object.entries(options).map(([path, help]) => {
    const places = path.split('.')
    const option = optionOf(places, action.args, help, command)
    program.addOption(option)
    return { places, name: option.attributeName(), none: noneOf(schemaAt(action.args, places)) }
  })
  describe(withWide(program), example).action(async (...given: unknown[]) => {
    const typed = given[positional.length] as Record<string, unknown>
    const args: Record<string, unknown> = {}
    for (const [n, name] of positional.entries()) if (given[n] !== undefined) args[name] = given[n]
    for (const { places, name, none } of read) {
      put(args, places, typed[name] === none ? null : typed[name])
    }
    const missing = positional.find(
      (name) => action.args.required?.includes(name) && args[name] === undefined,
    )
    if (missing !== undefined) program.error(`error: missing required argument '${wordOf(missing, command)}'`)
    if (standardInput && args[standardInput] === '-') args[standardInput] = await readStandardInput()
    for (const name of folders) if (args[name] !== undefined) args[name] = resolve(String(args[name]))
    const result = await cli.run(action, command.read?.(args) ?? args, {
      json: typed.json as boolean | undefined,
      wide: typed.wide as boolean | undefined,
      ...(gather ? { gather } : { item: (hint) => oneLine(String(hint)) }),
      render: (found) => {
        const shown = command.render(found)
        return typeof shown === 'string' ? oneLine(shown) : shown
      },
    })
    if (result !== undefined) cli.exitCode = command.exit?.(result) ?? cli.exitCode
  })
}

/** Throws AppError `payload_too_large`. */
async function readStandardInput(): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of process.stdin) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > standardInputMax) {
      throw new AppError('payload_too_large', 'The standard input has more than 1 MiB: give less.')
    }
  }
  return Buffer.concat(chunks)
    .toString()
    .replace(/\r?\n$/, '')
}

function optionOf(
  places: readonly string[],
  args: TObject,
  help: string | readonly [string, string],
  command: Command,
): Option {
  const schema = schemaAt(args, places)
  const flag = `--${wordOf(places.at(-1)!, command)}`
  if (typeof help === 'string') return new Option(flag, help)
  const [value, text] = help
  const option = new Option(`${flag} <${value}>`, text)
  const isSaidBefore = command.positional?.includes(places[0]!)
  if (places.length === 1 && args.required?.includes(places[0]!) && !isSaidBefore)
    option.makeOptionMandatory()
  const choices = choicesOf(schema)
  return choices ? option.choices(choices) : option.argParser(readerOf(schema))
}

function schemaAt(args: TObject, places: readonly string[]): AnySchema {
  return places.reduce<AnySchema>((schema, place) => schema.properties![place]!, args as TSchema as AnySchema)
}

const choicesOf = (schema: AnySchema) => schema.enum as string[] | undefined

const typesOf = ({ type, anyOf = [] }: AnySchema) => [type, ...anyOf.map((one) => one.type)]

/** The word for null, which takes a setting back; commander takes null itself for nothing. */
function noneOf(schema: AnySchema): string | symbol {
  return typesOf(schema).includes('null') ? 'default' : Symbol('no word')
}

function readerOf(schema: AnySchema): (text: string) => string | number {
  const choices = [schema, ...(schema.anyOf ?? [])]
  const whole = choices.find(({ type }) => type === 'integer')
  if (!whole) return (text) => text
  const none = noneOf(schema)
  const words: unknown[] = [none, ...choices.map((one) => one.const)]
  const { minimum = 0, maximum = Number.MAX_SAFE_INTEGER } = whole
  const rule =
    schema.rule ?? `${phraseOf({ ...whole, minimum })}${typeof none === 'string' ? `, or ${none}` : ''}`
  const read = numberReader(minimum, maximum, rule)
  return (text) => (words.includes(text) ? text : read(text))
}

function put(args: Record<string, unknown>, [first, ...rest]: readonly string[], value: unknown): void {
  if (value === undefined) return
  if (rest.length === 0) {
    args[first!] = value
    return
  }
  const inner = (args[first!] ?? {}) as Record<string, unknown>
  put(inner, rest, value)
  args[first!] = inner
}

/** The word of an argument at the command line. */
export const wordOf = (name: string, { words = {} }: Pick<Command, 'words'>) =>
  words[name] ?? name.replaceAll('_', '-')
