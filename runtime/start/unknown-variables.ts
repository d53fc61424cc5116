/** Finds environment variables that are nearly one of ours: probably typed wrong, and without effect. */

import type { Logger } from 'pino'
import type { TObject } from 'typebox'
import type { Environment } from '#lib/config.ts'
import { nearestName } from '#lib/nearest-name.ts'

/** Shorter names are near to many that belong to others, as HOST is to HOME. */
const lengthMin = 7

/** Pairs of a variable as set and as probably meant; a mistyped name rarely has another first letter. */
export function nearlyOurs(settings: TObject, env: Environment): { variable: string; meant: string }[] {
  const known = Object.keys(settings.properties)
  return Object.keys(env).flatMap((variable) => {
    if (variable.length < lengthMin || !env[variable] || known.includes(variable)) return []
    const meant = nearestName(
      variable,
      known.filter((name) => name[0] === variable[0]?.toUpperCase()),
    )
    return meant === null ? [] : [{ variable, meant }]
  })
}

export function warnOfUnknown(settings: TObject, env: Environment, log: Logger): void {
  for (const { variable, meant } of nearlyOurs(settings, env)) {
    log.warn({ variable, hint: `not read; did you mean ${meant}?` }, 'settings.unknown-variable')
  }
}
