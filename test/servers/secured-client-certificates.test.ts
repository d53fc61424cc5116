/**
 * Engines that ask for certificates: brokers, Postgres and registry want one of the client (mutual TLS), Qdrant has TLS and a
 * key. What cannot work ends the start, in words that name the setting and no secret.
 */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type KafkaCluster, openKafkaCluster } from '../../scripts/servers/kafka.ts'
import { openPostgres, type RunningPostgres } from '../../scripts/servers/postgres.ts'
import { setAccessRules } from '../support/access-rules.ts'
import { createProcesses, type Processes } from '../support/distributed-process.ts'
import { type OwnQdrant, openOwnQdrant } from '../support/distributed-qdrant.ts'
import { newSecretKeyVariable } from '../support/secret-key.ts'
import { registryUrl } from '../support/servers.ts'
import { type Certificates, makeCertificates, openTlsProxy, type TlsProxy } from '../support/tls.ts'

const secrets = { broker: 'of-the-brokers', postgres: 'of-postgres', qdrant: 'of-qdrant' }

let ours: Certificates
let foreign: Certificates
let kafka: KafkaCluster
let postgres: RunningPostgres
let qdrant: OwnQdrant | null
let proxies: TlsProxy[] = []
let processes: Processes
let env: Record<string, string>
/** The same Postgres behind a certificate for another name. */
let elsewhere: string
beforeAll(async () => {
  ours = makeCertificates()
  foreign = makeCertificates()
  const { server: certificate, authority, client } = ours
  const users = { flotilla: secrets.broker, reports: 'of-a-reader' }
  let registry: string
  ;[kafka, postgres, registry, qdrant] = await Promise.all([
    openKafkaCluster(1, { secured: { certificate, users, clientAuthority: authority } }),
    openPostgres({ password: secrets.postgres }),
    registryUrl(),
    openOwnQdrant({ tls: { certificate, authority }, apiKey: secrets.qdrant }),
  ])
  await setAccessRules(kafka.unsecured[0]!)
  const portOf = (url: string) => Number(new URL(url).port)
  proxies = await Promise.all([
    openTlsProxy(certificate, portOf(postgres.url), 'postgres', authority),
    openTlsProxy(certificate, portOf(registry), 'http', authority),
    openTlsProxy(ours.elsewhere, portOf(postgres.url), 'postgres', authority),
  ])
  const [database, secureRegistry, other] = proxies as [TlsProxy, TlsProxy, TlsProxy]
  const files = `sslmode=verify-full&sslcert=${client.certificate}&sslkey=${client.key}`
  const databaseAt = ({ port }: TlsProxy) =>
    `postgres://postgres:${secrets.postgres}@localhost:${port}/postgres?${files}`
  elsewhere = databaseAt(other)
  env = {
    NODE_EXTRA_CA_CERTS: authority,
    KAFKA_BROKERS: kafka.brokers.join(','),
    KAFKA_SSL: 'true',
    KAFKA_SSL_CERTIFICATE_LOCATION: client.certificate,
    KAFKA_SSL_KEY_LOCATION: client.key,
    KAFKA_SASL_MECHANISM: 'scram-sha-512',
    KAFKA_USERNAME: 'flotilla',
    KAFKA_PASSWORD: secrets.broker,
    DATABASE_URL: databaseAt(database),
    SCHEMA_REGISTRY_URL: `https://localhost:${secureRegistry.port}${new URL(registry).pathname}`,
    SCHEMA_REGISTRY_SSL_CERTIFICATE_LOCATION: client.certificate,
    SCHEMA_REGISTRY_SSL_KEY_LOCATION: client.key,
    ...(qdrant
      ? { QDRANT_URL: qdrant.url, QDRANT_GRPC_URL: qdrant.grpcUrl, QDRANT_API_KEY: secrets.qdrant }
      : {}),
    ...newSecretKeyVariable(),
  }
  processes = createProcesses(env)
})
afterAll(async () => {
  await processes?.close()
  await Promise.all([kafka?.close(), postgres?.close(), qdrant?.kill9()])
  await Promise.all(proxies.map((proxy) => proxy.close()))
  for (const made of [ours, foreign]) made?.remove()
})

test('the platform starts, works and is sound on all of them', { timeout: 300_000 }, async () => {
  if (!qdrant) console.error('*** Without Qdrant: TLS to it is NOT tested. ***')
  const platform = await processes.start([])
  const who = ['--agent-id', 'whale', '--tier', 'infra-architect']
  await processes.run(['agents', 'provision', ...who], platform.home)
  const doctor = await processes.run<{ checks: { check: string; status: string; found: string }[] }>(
    ['doctor'],
    platform.home,
  )
  expect(doctor.checks.filter(({ status }) => status !== 'ok')).toEqual([])
  platform.child.kill('SIGTERM')
  expect(await platform.finished).toBe(0)
})

interface Wrong {
  what: string
  variables: () => Record<string, string>
  said: RegExp[]
}

const none = { certificate: '', key: '' }
const kafkaFiles = ({ certificate, key }: Certificates['client']) => ({
  KAFKA_SSL_CERTIFICATE_LOCATION: certificate,
  KAFKA_SSL_KEY_LOCATION: key,
})
const registryFiles = ({ certificate, key }: Certificates['client']) => ({
  SCHEMA_REGISTRY_SSL_CERTIFICATE_LOCATION: certificate,
  SCHEMA_REGISTRY_SSL_KEY_LOCATION: key,
})
const withoutFiles = () => ({ DATABASE_URL: env.DATABASE_URL!.replace(/&.*/, '') })

const wrong: Wrong[] = [
  {
    what: 'an authority that is not ours',
    variables: () => ({ NODE_EXTRA_CA_CERTS: foreign.authority }),
    said: [/KAFKA_BROKERS.*authority/, /DATABASE_URL.*authority/, /SCHEMA_REGISTRY_URL.*authority/],
  },
  {
    what: 'another name',
    variables: () => ({ DATABASE_URL: elsewhere }),
    said: [/DATABASE_URL.*another name/],
  },
  {
    what: 'no client certificate at all',
    variables: () => ({ ...kafkaFiles(none), ...registryFiles(none), ...withoutFiles() }),
    said: [
      /KAFKA_BROKERS.*client certificate.*KAFKA_SSL_CERTIFICATE_LOCATION/,
      /SCHEMA_REGISTRY_URL.*client certificate.*SCHEMA_REGISTRY_SSL_CERTIFICATE_LOCATION/,
      /DATABASE_URL.*client certificate.*sslcert/,
    ],
  },
  {
    what: 'a client certificate of another authority',
    variables: () => kafkaFiles(foreign.client),
    said: [/KAFKA_BROKERS.*client certificate/],
  },
  {
    what: 'a certificate without its key',
    variables: () => ({ KAFKA_SSL_KEY_LOCATION: '' }),
    said: [/KAFKA_SSL_CERTIFICATE_LOCATION and KAFKA_SSL_KEY_LOCATION belong together/],
  },
  {
    what: 'a file that is not there',
    variables: () => registryFiles({ certificate: '/nowhere.pem', key: ours.client.key }),
    said: [/SCHEMA_REGISTRY_SSL_CERTIFICATE_LOCATION names \/nowhere\.pem, which cannot be read \(ENOENT\)/],
  },
]

describe.each(wrong)('$what', ({ variables, said }) => {
  test('ends the start, and says what to set', { timeout: 120_000 }, async () => {
    const one = processes.spawn([], { more: variables() })
    expect(await one.finished).not.toBe(0)
    for (const text of said) expect(one.output()).toMatch(text)
    for (const secret of Object.values(secrets)) expect(one.output()).not.toContain(secret)
    expect(one.output()).not.toContain('PRIVATE KEY')
  })
})

test('a Qdrant whose authority is unknown is named, too', { timeout: 120_000 }, async ({ skip }) => {
  if (!qdrant) return skip('no qdrant executable')
  const one = processes.spawn([], { more: { NODE_EXTRA_CA_CERTS: foreign.authority } })
  expect(await one.finished).not.toBe(0)
  expect(one.output()).toMatch(/QDRANT_URL.*authority/)
})

test('a gRPC address whose certificate is for another name is named alone', { timeout: 120_000 }, async ({
  skip,
}) => {
  if (!qdrant) return skip('no qdrant executable')
  const grpcUrl = qdrant.grpcUrl.replace('localhost', '127.0.0.1')
  const one = processes.spawn([], { more: { QDRANT_GRPC_URL: grpcUrl } })
  expect(await one.finished).not.toBe(0)
  expect(one.output()).toMatch(/QDRANT_GRPC_URL.*another name/)
  expect(one.output()).not.toMatch(/engine of QDRANT_URL/)
})
