/** Writes docs/configuration.md from the schemas that read the environment; with `--check` it only compares. */

import type { TObject, TSchema } from 'typebox'
import { engineSettings } from '#engines/open.ts'
import { logSettings } from '#runtime/observe/log.ts'
import { tracingSettings } from '#runtime/observe/tracing/settings.ts'
import type { Service } from '#runtime/start/service.ts'
import { homeSettings } from '#runtime/start/settings.ts'
import { portSettings, processSettings } from '#runtime/start/start.ts'
import { services } from '#services/index.ts'
import { writeOrCheck } from './made-page.ts'

/** The page as Markdown. */
function configurationPage(all: readonly Service[]): string {
  return [
    '# Configuration',
    '',
    'Made from the schemas that read the environment by `npm run docs:config`: do not edit.',
    '',
    'Everything is set by environment variables; an empty one counts as unset. Faulty values stop the start with one',
    'message that names them all. `flotilla doctor` shows the settings in force.',
    '',
    '## Engines',
    '',
    'An engine that is not named runs embedded, in the one process that owns the data directory. Mixing is allowed;',
    'several processes that would share an embedded engine are refused, naming the variable to set.',
    '',
    ...tableOf(engineSettings),
    '',
    'Certificates of TLS are checked against the authorities that Node.js knows; one of your own is in the PEM file that',
    '`NODE_EXTRA_CA_CERTS` names, for all engines alike ([reading-topics.md](reading-topics.md)).',
    '',
    '## Process',
    '',
    ...tableOf(homeSettings),
    ...rowsOf(processSettings),
    ...rowsOf(logSettings),
    '',
    '## Tracing',
    '',
    'Off unless one of the first three says otherwise; the names are those of OpenTelemetry ([tracing.md](tracing.md)).',
    '',
    ...tableOf(tracingSettings),
    ...all.flatMap(sectionOf),
    '',
  ].join('\n')
}

function sectionOf(service: Service): string[] {
  const rows = [...rowsOf(portSettings(service) as TObject), ...rowsOf(service.config)]
  if (rows.length === 0) return []
  return ['', `## ${service.name}`, '', `The service ${service.purpose}.`, '', ...head, ...rows]
}

const head = ['| variable | default | meaning |', '|---|---|---|']

function tableOf(schema: TObject): string[] {
  return [...head, ...rowsOf(schema)]
}

function rowsOf(schema: TObject): string[] {
  return Object.entries(schema.properties as Record<string, TSchema>).map(([name, property]) => {
    const { default: preset, description } = property as { default?: unknown; description?: string }
    if (description === undefined) throw new Error(`${name} has no description`)
    const shown = preset === undefined || preset === '' ? '' : `\`${String(preset)}\``
    return `| \`${name}\` | ${shown} | ${description} |`
  })
}

writeOrCheck('configuration.md', configurationPage(services), 'npm run docs:config')
