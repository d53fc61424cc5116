/** The webhook settings of the environment: which targets file the relay and the courier read. */

import { type Static, Type } from 'typebox'
import { type Environment, loadConfig } from '#lib/config.ts'
import { type NamedFile, namedFile } from '#runtime/yaml-file/named-file.ts'
import { loadTargets } from './targets-file.ts'

/** Of the relay and of the courier: both read the same file. */
export const webhookSettings = Type.Object({
  WEBHOOK_TARGETS_FILE: Type.Optional(
    Type.String({
      description:
        'YAML file of the webhook targets, read again when it changes; without it `targets.yaml` in the data directory, which may be absent',
    }),
  ),
})

export type WebhookSettings = Static<typeof webhookSettings>

/** For a service's `check`: throws AppError `invalid_configuration` with the faults of the file. */
export function checkTargetsFile(env: Environment): void {
  const { path, optional } = targetsFileOf(env)
  loadTargets(path, env, { optional })
}

/** The file that the environment names, absolute; only the default one may be absent. */
export function targetsFileOf(env: Environment): NamedFile {
  return namedFile(loadConfig(webhookSettings, env).WEBHOOK_TARGETS_FILE, 'targets.yaml', env)
}
