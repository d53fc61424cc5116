import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { services } from '#services/index.ts'

const compose = readFileSync(new URL('../../docker-compose.yml', import.meta.url), 'utf8')

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
