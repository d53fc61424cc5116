/** Settings that are read before anything is opened: the data directory and the drivers. */

import { resolve } from 'node:path'
import { Type } from 'typebox'
import { chooseEngines, type EngineChoice, engineSettings } from '#engines/open.ts'
import { type Environment, loadConfig } from '#lib/config.ts'
import type { EngineName } from './service.ts'

export const homeSettings = Type.Object({
  FLOTILLA_HOME: Type.String({
    default: './.flotilla',
    description: 'data directory, mode 0700, locked by its one owner',
  }),
})

/** The data directory that the environment names, absolute. */
export function homeOf(env: Environment): string {
  return resolve(loadConfig(homeSettings, env).FLOTILLA_HOME)
}

/** The drivers that the environment chooses. Throws AppError `invalid_configuration`. */
export function choicesOf(env: Environment): Record<EngineName, EngineChoice> {
  return chooseEngines(loadConfig(engineSettings, env))
}
