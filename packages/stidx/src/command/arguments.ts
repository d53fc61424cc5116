/** Reads the arguments and options of a command line. */

import { SearchFault } from '../fault.ts'

/** Options with a value have a name for it in the help; the others are switches. */
export type OptionTable = Readonly<Record<string, 'switch' | 'value'>>

export interface Arguments {
  positional: string[]
  values: Record<string, string>
  switches: Set<string>
}

/** `--name value`, `--name=value`, switches; all behind `--` is positional. @throws SearchFault on unknown options. */
export function readArguments(args: readonly string[], options: OptionTable): Arguments {
  const read: Arguments = { positional: [], values: {}, switches: new Set() }
  for (let i = 0; i < args.length; i++) {
    const word = args[i]!
    if (word === '--') {
      read.positional.push(...args.slice(i + 1))
      break
    }
    if (!word.startsWith('-') || word === '-') {
      read.positional.push(word)
      continue
    }
    const equals = word.indexOf('=')
    const name = (equals === -1 ? word : word.slice(0, equals)).replace(/^--/, '')
    const kind = word.startsWith('--') && Object.hasOwn(options, name) ? options[name] : undefined
    if (kind === undefined) throw wrongUse(`unknown option ${word} (put -- before a query with a dash)`)
    if (kind === 'switch') {
      if (equals !== -1) throw wrongUse(`--${name} takes no value`)
      read.switches.add(name)
    } else {
      const value = equals === -1 ? args[++i] : word.slice(equals + 1)
      if (value === undefined) throw wrongUse(`--${name} needs a value`)
      read.values[name] = value
    }
  }
  return read
}

export function wrongUse(message: string): SearchFault {
  return new SearchFault('wrong_use', message)
}

/** A whole number from 1 to `most`. */
export function readLimit(text: string, most: number): number {
  const limit = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
  if (!(limit >= 1 && limit <= most)) {
    throw wrongUse(
      `--limit is ${JSON.stringify(text.slice(0, 60))}: a whole number from 1 to ${most.toLocaleString('en')}`,
    )
  }
  return limit
}
