/** The targets file: which one it is, its form as a whole, and how it is loaded and watched. */

import { type Static, Type } from 'typebox'
import { type Environment, loadConfig } from '#lib/config.ts'
import { readEntries } from '#runtime/yaml-file/entries.ts'
import type { Located } from '#runtime/yaml-file/located-yaml.ts'
import { type NamedFile, namedFile } from '#runtime/yaml-file/named-file.ts'
import type { FileReading } from '#runtime/yaml-file/reading.ts'
import {
  loadYamlFile,
  parseYamlFile,
  type WatchedYamlFile,
  type WatchYamlFileOptions,
  watchYamlFile,
  type YamlFileKind,
  type YamlFileOptions,
} from '#runtime/yaml-file/yaml-file.ts'
import type { WebhookTarget, WebhookTargets } from './target.ts'
import { readTarget } from './target-fields.ts'

const entriesAsked = { key: 'targets', keys: 'names', max: 1_000 }
/** Names are used in addresses, query lists and labels of metrics. */
const targetNamePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

const targetsFile: YamlFileKind<WebhookTargets> = {
  name: 'targets file',
  variable: 'WEBHOOK_TARGETS_FILE',
  logName: 'webhooks.targets',
  absent: () => ({ targets: new Map(), secrets: [], version: 'none' }),
  read(root, reading, version) {
    const targets = root ? readTargets(root, reading) : new Map<string, WebhookTarget>()
    return { targets, secrets: [...reading.secrets], version }
  },
  describe: ({ targets }) => ({ targets: targets.size }),
}

export type WatchedTargets = WatchedYamlFile<WebhookTargets>

/** As `loadYamlFile`; an absent file that may be absent means no targets. */
export function loadTargets(path: string, env: Environment, options: YamlFileOptions = {}): WebhookTargets {
  return loadYamlFile(targetsFile, path, env, options)
}

/** As `loadTargets`, of a text; `path` is named in the fault. */
export function parseTargets(text: string, env: Environment, path: string): WebhookTargets {
  return parseYamlFile(targetsFile, text, env, path)
}

/** As `watchYamlFile`. */
export function watchTargets(options: WatchYamlFileOptions): WatchedTargets {
  return watchYamlFile(targetsFile, options)
}

function readTargets(root: Located, reading: FileReading): Map<string, WebhookTarget> {
  const targets = new Map<string, WebhookTarget>()
  for (const { name, place, value } of readEntries(root, reading, entriesAsked)) {
    if (!targetNamePattern.test(name)) {
      reading.fault(
        place,
        'is not a name: 1 to 64 letters, digits, dots, underscores or hyphens, beginning with a letter or digit',
      )
    }
    const target = readTarget(name, place, value, reading)
    if (target) targets.set(name, target)
  }
  return targets
}

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
