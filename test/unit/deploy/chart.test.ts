/** The Helm chart fits the services, settings and topics that there are. test/long/chart.test.ts has Helm render it. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv } from 'ajv'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { deadlines } from '#lib/deadlines.ts'
import { settingsOf } from '#runtime/start/start.ts'
import { catalog } from '#topics/catalog.ts'
import { chartServices, chartValues, readChart } from '../../support/chart.ts'
import { projectFolder } from '../../support/pages.ts'

const values = chartValues()
const known = new Set([...Object.keys(settingsOf(chartServices).properties), 'NODE_EXTRA_CA_CERTS'])
const isValid = new Ajv({ strict: false }).compile(JSON.parse(readChart('values.schema.json')) as object)

/** A `define` of the helpers that is a list of names and numbers. */
function defined(name: string): Record<string, number> {
  const body = new RegExp(`define "${name}" -}}\\n([\\s\\S]*?)\\n{{- end`).exec(
    readChart('templates/_helpers.tpl'),
  )
  return parse(body![1]!) as Record<string, number>
}

test('the chart has the version of the project', () => {
  const { version } = JSON.parse(readFileSync(join(projectFolder, 'package.json'), 'utf8')) as {
    version: string
  }
  expect(parse(readChart('Chart.yaml'))).toMatchObject({ apiVersion: 'v2', version, appVersion: version })
})

test('every service of a distributed platform has an entry, and nothing else has', () => {
  expect(Object.keys(values.services).sort()).toEqual(chartServices.map(({ name }) => name).sort())
})

test('the values are what their schema allows', () => {
  expect(isValid(values), JSON.stringify(isValid.errors)).toBe(true)
})

test.each([
  ['a value that the chart does not know', { ...values, serviecs: {} }],
  [
    'a service that there is not',
    { ...values, services: { ...values.services, other: values.services.hub } },
  ],
  ['a secret among the values', { ...values, config: { DATABASE_URL: 'postgres://u:p@h/d' } }],
  [
    'lag of a service that reads no partitions',
    withService('hub', { lag: values.services['vector-writer']!.lag }),
  ],
])('the schema refuses %s', (_what, wrong) => {
  expect(isValid(wrong)).toBe(false)
})

function withService(name: string, more: object) {
  return { ...values, services: { ...values.services, [name]: { ...values.services[name], ...more } } }
}

test('ports are those that the services listen on', () => {
  const open: Record<string, number> = {}
  const loopback: Record<string, number> = {}
  for (const service of chartServices) {
    if (service.kind !== 'ingress') continue
    const kind = 'portVariable' in service.address ? open : loopback
    kind[service.name] = service.address.port
  }
  expect(defined('flotilla.ports')).toEqual(open)
  expect(defined('flotilla.loopbackPorts')).toEqual(loopback)
})

test('every variable that chart and example set is one that is read', () => {
  const texts = ['templates/deployments.yaml', 'examples/agent-with-relay.yaml'].map(readChart).join('\n')
  const set = [...texts.matchAll(/- \{? ?name: ([A-Z][A-Z_]+)/g)].map(([, name]) => name!)
  const inValues = Object.values(values.services).flatMap(({ env }) => Object.keys(env))
  const mentioned = [...readChart('values.yaml').matchAll(/\b[A-Z]+(?:_[A-Z]+)+\b/g)].map(([name]) => name)
  expect(set.length).toBeGreaterThan(5)
  // The agent of the example reads it, not the platform.
  const names = [...set, ...inValues, ...mentioned, ...Object.keys(values.config)].filter(
    (name) => name !== 'VECTOR_URL',
  )
  expect(names.filter((name) => !known.has(name))).toEqual([])
})

test('workers are scaled by the lag of their own group, up to the partitions of its topic', () => {
  for (const [name, { lag }] of Object.entries(values.services)) {
    if (lag === undefined) continue
    const topic = catalog.find((one) => one.name === lag.topic)
    expect(topic?.readers).toContainEqual({ service: name, group: lag.group, mode: 'batch' })
    expect(lag.maxReplicas).toBeLessThanOrEqual(topic!.partitions)
  }
})

test('a pod has longer to stop than its process takes', () => {
  for (const service of chartServices) {
    const { env, terminationGracePeriodSeconds = 30 } = values.services[service.name]!
    const drainMs = service.kind === 'worker' ? (service.drainMs?.(env as Record<string, string>) ?? 0) : 0
    // Five seconds of preStop come before.
    expect(terminationGracePeriodSeconds * 1_000).toBeGreaterThan(drainMs + deadlines.stop.promisedMs + 5_000)
  }
})

test('the health check of the image asks every port that a service may have', () => {
  const check = readFileSync(join(projectFolder, 'deploy/images/healthcheck.js'), 'utf8')
  for (const service of chartServices) {
    if (service.kind !== 'ingress') continue
    const { address } = service
    if ('portVariable' in address) expect(check).toContain(`env.${address.portVariable} || ${address.port},`)
    else expect(check).toContain(`env.${address.loopbackVariable} ?? '')?.[1] ?? ${address.port},`)
  }
  expect(check).toContain('env.OPS_PORT || 9464,')
})
