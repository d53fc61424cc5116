/** Which engines the environment chooses, and which services may run apart. */

import { describe, expect, it } from 'vitest'
import { chooseEngines, type EngineSettings, refuseSharing } from '#engines/open.ts'

const distributed: EngineSettings = {
  KAFKA_BROKERS: 'a:9092,b:9092',
  QDRANT_URL: 'http://127.0.0.1:6333',
  DATABASE_URL: 'postgres://127.0.0.1/flotilla',
}

const needs = new Map([
  ['gateway', ['eventLog', 'schemaRegistry', 'relational', 'vectors', 'embedder'] as const],
  ['writer', ['eventLog', 'schemaRegistry', 'relational', 'vectors'] as const],
  ['publisher', ['eventLog', 'schemaRegistry', 'relational'] as const],
])

describe('the choice of engines', () => {
  it('is embedded for what is not named', () => {
    const drivers = Object.entries(chooseEngines({})).map(([engine, choice]) => `${engine} ${choice.driver}`)
    expect(drivers).toEqual([
      'eventLog embedded',
      'schemaRegistry folder',
      'vectors embedded',
      'relational embedded',
      'mirror embedded',
      'embedder local',
      'localEmbedder local',
    ])
  })

  it('refuses half a SASL configuration and what is no URL', () => {
    expect(() => chooseEngines({ KAFKA_BROKERS: 'a:1', KAFKA_USERNAME: 'u' })).toThrow(/belong together/)
    expect(() => chooseEngines({ QDRANT_URL: 'somewhere' })).toThrow(/QDRANT_URL/)
    expect(() => chooseEngines({ QDRANT_URL: 'no url: s3cret' })).not.toThrow(/s3cret/)
  })
})

describe('services in several processes', () => {
  it('may share distributed engines', () => {
    expect(() => refuseSharing(chooseEngines(distributed), needs, ['writer'])).not.toThrow()
  })

  it('may mix engines when one process runs all of them', () => {
    const mixed = chooseEngines({ KAFKA_BROKERS: 'a:9092' })
    expect(() => refuseSharing(mixed, needs, ['gateway', 'writer', 'publisher'])).not.toThrow()
  })

  it('are refused on an embedded engine that others need, naming its variable and no other', () => {
    const { QDRANT_URL: _, ...withoutQdrant } = distributed
    expect(() => refuseSharing(chooseEngines(withoutQdrant), needs, ['writer'])).toThrow(/set QDRANT_URL, or/)
    // No other service needs the vector engine of these two.
    expect(() => refuseSharing(chooseEngines(withoutQdrant), needs, ['gateway', 'writer'])).not.toThrow()
    expect(() => refuseSharing(chooseEngines(withoutQdrant), needs, ['publisher'])).not.toThrow()
  })
})
