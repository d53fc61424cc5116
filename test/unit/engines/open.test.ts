/** Which engines the environment chooses, and which services may run apart. */

import { describe, expect, it } from 'vitest'
import { checkDriverPackages } from '#engines/driver-packages.ts'
import { chooseEngines, type EngineSettings, engineSettings, refuseSharing } from '#engines/open.ts'
import { loadConfig } from '#lib/config.ts'

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
  it('defaults to the embedded driver', () => {
    const drivers = Object.entries(chooseEngines({})).map(([engine, choice]) => `${engine} ${choice.driver}`)
    expect(drivers).toEqual([
      'eventLog embedded',
      'schemaRegistry folder',
      'vectors embedded',
      'relational embedded',
      'mirror embedded',
      'embedder local',
      'localEmbedder local',
      'identity local',
    ])
  })

  it('says what to install where the packages of drivers are missing', () => {
    const choices = Object.values(
      chooseEngines({ KAFKA_BROKERS: 'a:1', SCHEMA_REGISTRY_URL: 'http://a', FIREBASE_PROJECT_ID: 'p' }),
    )
    const faultWithout = (...missing: string[]) => {
      try {
        checkDriverPackages(choices, (name) => !missing.includes(name))
        return null
      } catch (error) {
        return (error as Error).message
      }
    }
    expect(faultWithout()).toBeNull()
    expect(faultWithout('firebase-admin')).toBe(
      'FIREBASE_PROJECT_ID needs a package that is not installed: npm install firebase-admin@14',
    )
    expect(faultWithout('@platformatic/kafka', '@kafkajs/confluent-schema-registry')).toMatch(
      /^KAFKA_BROKERS and SCHEMA_REGISTRY_URL need packages that are not installed: npm install @platformatic\/kafka@\d+\.\d+\.\d+ @kafkajs\/confluent-schema-registry@3$/,
    )
  })

  it('names a setting once that needs several packages', () => {
    const choices = [{ driver: 'qdrant-grpc', variable: 'QDRANT_GRPC_URL' }]
    expect(() => checkDriverPackages(choices, () => false)).toThrow(
      /^QDRANT_GRPC_URL needs packages that are not installed: npm install @qdrant\/js-client-grpc@1\.\d+\.\d+ @connectrpc\/connect-node@2 @connectrpc\/connect@2 @bufbuild\/protobuf@2$/,
    )
  })

  it('refuses half a configuration', () => {
    expect(() => chooseEngines({ KAFKA_BROKERS: 'a:1', KAFKA_USERNAME: 'u' })).toThrow(/belong together/)
    expect(() => chooseEngines({ QDRANT_GRPC_URL: 'http://a:6334' })).toThrow(
      /QDRANT_GRPC_URL belongs to QDRANT_URL, which is not set/,
    )
    expect(() => chooseEngines({ QDRANT_URL: 'http://a:6333', QDRANT_GRPC_URL: 'a:6334' })).toThrow(
      /QDRANT_GRPC_URL must begin with http/,
    )
    const model = { EMBEDDINGS_MODEL: 'nomic-embed-text' }
    expect(() => chooseEngines(model)).toThrow(/EMBEDDINGS_MODEL belongs to EMBEDDINGS_URL, which is not set/)
    expect(() => chooseEngines({ ...model, EMBEDDINGS_URL: 'http://localhost:11434/v1' })).not.toThrow()
  })

  it.each(['a:9092', 'a.example:9092, [::1]:9093', '10.0.0.1:1'])('takes %s for brokers', (brokers) => {
    expect(loadConfig(engineSettings, { KAFKA_BROKERS: brokers })).toMatchObject({ KAFKA_BROKERS: brokers })
  })

  it.each(['a', 'a:9092,', 'http://a:9092', 'user@a:9092', 'a:port'])(
    'takes %s for no brokers',
    (brokers) => {
      expect(() => loadConfig(engineSettings, { KAFKA_BROKERS: brokers })).toThrow(/KAFKA_BROKERS/)
    },
  )
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
