/** Reads single values of a YAML file of the operator: fills in variables, and collects faults and secrets on the way. */

import type { Environment } from '#lib/config.ts'
import { nearestName } from '#lib/nearest-name.ts'
import type { Fault, Located, Place } from './located-yaml.ts'

/** Values shorter than this are no secrets: they would be found everywhere. */
export const secretLengthMin = 8

export interface FileReading {
  fault(place: Place, message: string): void
  /** A text with its variables filled in, or null after a fault was recorded. */
  text(value: Located): string | null
  /** A text of the file itself, without variables; or null after a fault was recorded. */
  plain(value: Located): string | null
  number(value: Located, limits: NumberLimits): number | null
  boolean(value: Located): boolean | null
  choice<T extends string>(value: Located, choices: readonly T[]): T | null
  /** Values that must never be written anywhere. */
  secrets: Set<string>
}

interface NumberLimits {
  min: number
  max: number
  integer: boolean
}

export function createReading(env: Environment, faults: Fault[]): FileReading {
  const secrets = new Set<string>()
  const fault = ({ line, path }: Place, message: string) => void faults.push({ line, path, message })

  function scalar(value: Located): unknown {
    return value.kind === 'scalar' ? value.value : undefined
  }
  function plain(value: Located): string | null {
    const given = scalar(value)
    if (typeof given === 'string' && given.length > 0 && given.isWellFormed()) return given
    fault(value.place, typeof given === 'number' ? 'must be a text: put it in quotes' : 'must be a text')
    return null
  }
  return {
    fault,
    plain,
    secrets,
    text(value) {
      const given = plain(value)
      if (given === null) return null
      const { text, values, unset, malformed } = expandVariables(given, env)
      if (malformed) {
        fault(value.place, `has a "\${" that begins no \${NAME}; write "$\${" for the characters themselves`)
      }
      for (const name of new Set(unset)) {
        fault(
          value.place,
          `needs the environment variable ${name}, which is unset or empty: set it where the platform starts`,
        )
      }
      for (const filled of values) if (filled.length >= secretLengthMin) secrets.add(filled)
      return malformed || unset.length > 0 ? null : text
    },
    number(value, { min, max, integer }) {
      const given = scalar(value)
      const fits = typeof given === 'number' && given >= min && given <= max
      if (fits && (!integer || Number.isSafeInteger(given))) return given
      fault(value.place, `must be a ${integer ? 'whole ' : ''}number from ${min} to ${max}`)
      return null
    },
    boolean(value) {
      const given = scalar(value)
      if (typeof given === 'boolean') return given
      fault(value.place, 'must be true or false')
      return null
    },
    choice(value, choices) {
      const given = choices.find((choice) => choice === scalar(value))
      if (given !== undefined) return given
      fault(value.place, `must be ${choices.join(' or ')}`)
      return null
    },
  }
}

export function unknownKey(name: string, known: readonly string[]): string {
  const meant = nearestName(name, known)
  return `is not a known key${meant ? `: did you mean ${meant}?` : `; there are ${known.join(', ')}`}`
}

const reference = /\$\$\{|\$\{([^}]*)\}?/g
const variableName = /^[A-Za-z_][A-Za-z0-9_]*$/

interface Expanded {
  text: string
  /** Values that were filled in: never to be shown. */
  values: string[]
  /** Variables that are unset or empty. */
  unset: string[]
  /** Some `${` is not a reference. */
  malformed: boolean
}

/** Fills in the variables; `$${` becomes a plain `${`. An empty variable counts as unset. */
function expandVariables(text: string, env: Environment): Expanded {
  const expanded: Expanded = { text: '', values: [], unset: [], malformed: false }
  expanded.text = text.replace(reference, (whole: string, name: string | undefined) => {
    if (whole === '$${') return '${'
    if (!whole.endsWith('}') || !variableName.test(name ?? '')) {
      expanded.malformed = true
      return ''
    }
    const value = Object.hasOwn(env, name as string) ? env[name as string] : undefined
    if (value === undefined || value === '') {
      expanded.unset.push(name as string)
      return ''
    }
    expanded.values.push(value)
    return value
  })
  return expanded
}
