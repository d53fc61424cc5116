/** A text with ${NAME} in it in, the text with the variables' values out. */

import type { Environment } from '#lib/config.ts'

const reference = /\$\$\{|\$\{([^}]*)\}?/g
const variableName = /^[A-Za-z_][A-Za-z0-9_]*$/

export interface Expanded {
  text: string
  /** Values that were filled in: never to be shown. */
  values: string[]
  /** Variables that are unset or empty. */
  unset: string[]
  /** Some `${` is not a reference. */
  malformed: boolean
}

/** Fills in the variables; `$${` stands for a plain `${`. An empty variable counts as unset. */
export function expandVariables(text: string, env: Environment): Expanded {
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
