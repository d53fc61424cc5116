/** The container setup fits the services and settings that there are. */

import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { services } from '#services/index.ts'
import { parseTargets } from '#services/webhooks/targets/targets-file.ts'

const compose = readFileSync(new URL('../../../docker-compose.yml', import.meta.url), 'utf8')

test('every service has a container of its own in docker-compose.yml', () => {
  for (const service of services) {
    expect(compose).toContain(`\n  ${service.name}:\n`)
    expect(compose).toContain(`command: ["start", "${service.name}"]`)
  }
})

test('every engine is named to the containers', () => {
  for (const variable of ['KAFKA_BROKERS', 'SCHEMA_REGISTRY_URL', 'QDRANT_URL', 'DATABASE_URL']) {
    expect(compose).toContain(`    ${variable}: `)
  }
})

interface Container {
  network_mode?: string
  ports?: string[]
  environment?: Record<string, string>
  volumes?: string[]
}

test('the relay of webhooks is reached by those who share its network namespace, and by nobody else', () => {
  const { services: containers } = parse(compose, { merge: true }) as { services: Record<string, Container> }
  const relay = containers['webhook-relay']!
  expect([relay.ports, relay.environment?.WEBHOOK_GATEWAY]).toEqual([undefined, undefined])
  const sharing = Object.entries(containers).filter(([, one]) => one.network_mode === 'service:webhook-relay')
  expect(sharing.map(([name]) => name)).toEqual(['metrics', 'cli'])
  for (const [, one] of sharing) expect(one.ports).toBeUndefined()
})

test('relay, courier and command line read one targets file, which is sound as it is shipped', () => {
  const { services: containers } = parse(compose, { merge: true }) as { services: Record<string, Container> }
  for (const name of ['webhook-relay', 'webhook-courier', 'cli']) {
    const { environment, volumes } = containers[name]!
    expect(environment).toMatchObject({ WEBHOOK_TARGETS_FILE: '/etc/flotilla/targets.yaml' })
    expect(environment).toHaveProperty('KAFKA_BROKERS')
    expect(volumes).toContain('./docker/webhooks:/etc/flotilla:ro')
  }
  const shipped = readFileSync(new URL('../../../docker/webhooks/targets.yaml', import.meta.url), 'utf8')
  expect(parseTargets(shipped, {}, 'targets.yaml').targets.size).toBe(0)
})
