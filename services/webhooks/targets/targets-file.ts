/** The targets file: which one it is, its form as a whole, and how it is loaded and watched. */

import { type Static, Type } from 'typebox'
import { type Environment, loadConfig } from '#lib/config.ts'
import type { CheckContext } from '#runtime/yaml-file/check.ts'
import { entriesFile } from '#runtime/yaml-file/fields.ts'
import { type NamedFile, namedFile, type WatchedYamlFile, yamlFile } from '#runtime/yaml-file/yaml-file.ts'
import type { WebhookTargets } from './target.ts'
import { targetOf, targetSchema } from './target-fields.ts'

/** Names are used in addresses, query lists and labels of metrics. */
const targetNamePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

interface TargetsFile {
  targets: Record<string, Static<typeof targetSchema>> | null
}

export type WatchedTargets = WatchedYamlFile<WebhookTargets>

/** An absent file that may be absent means no targets. */
export const {
  load: loadTargets,
  parse: parseTargets,
  watch: watchTargets,
} = yamlFile<TargetsFile, WebhookTargets>({
  name: 'targets file',
  variable: 'WEBHOOK_TARGETS_FILE',
  logName: 'webhooks.targets',
  schema: entriesFile(targetSchema, { key: 'targets', keys: 'names', max: 1_000, check: checkNames }),
  read(file, secrets, version) {
    const entries = Object.entries(file?.targets ?? {})
    return {
      targets: new Map(entries.map(([name, given]) => [name, targetOf(name, given)])),
      secrets,
      version,
    }
  },
  describe: ({ targets }) => ({ targets: targets.size }),
})

function checkNames(targets: object, { fault }: CheckContext): void {
  for (const name of Object.keys(targets)) {
    if (targetNamePattern.test(name)) continue
    fault(
      'is not a name: 1 to 64 letters, digits, dots, underscores or hyphens, beginning with a letter or digit',
      name,
    )
  }
}

/** Settings of relay and courier: both read the same file. */
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
