/**
 * The platform where everything is under lock: brokers with TLS, SCRAM and access rules, Postgres with TLS and SCRAM, the
 * registry with TLS. It works with the rights that docs/reading-topics.md lists, and a reader with those of the page reads its
 * topic and nothing else.
 */

import { readFileSync } from 'node:fs'
import { Kafka, logLevel } from 'kafkajs'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { catalog } from '#topics/catalog.ts'
import { type KafkaCluster, openKafkaCluster } from '../../scripts/servers/kafka.ts'
import { openPostgres, type RunningPostgres } from '../../scripts/servers/postgres.ts'
import { setAccessRules } from '../support/access-rules.ts'
import { newSecretKeyVariable } from '../support/secret-key.ts'
import { registryUrl } from '../support/servers.ts'
import { type Certificates, makeCertificates, openTlsProxy, type TlsProxy } from '../support/tls.ts'
import { type FillingPlatform, openFillingPlatform } from '../support/topic-readers/fill.ts'
import { readWithPython } from '../support/topic-readers/readers.ts'

const users = { flotilla: 'of-the-platform', reports: 'of-a-reader' }

let certificates: Certificates
let kafka: KafkaCluster
let postgres: RunningPostgres
let registry: string
let proxies: TlsProxy[] = []
let platform: FillingPlatform
beforeAll(async () => {
  certificates = makeCertificates()
  const { server: certificate } = certificates
  ;[kafka, postgres, registry] = await Promise.all([
    openKafkaCluster(1, { secured: { certificate, users } }),
    openPostgres({ password: 'of-postgres' }),
    registryUrl(),
  ])
  await setAccessRules(kafka.unsecured[0]!)
  const portOf = (url: string) => Number(new URL(url).port)
  proxies = await Promise.all([
    openTlsProxy(certificate, portOf(postgres.url), 'postgres'),
    openTlsProxy(certificate, portOf(registry), 'http'),
  ])
  const [database, secureRegistry] = proxies as [TlsProxy, TlsProxy]
  platform = await openFillingPlatform({
    NODE_EXTRA_CA_CERTS: certificates.authority,
    KAFKA_BROKERS: kafka.brokers.join(','),
    KAFKA_SSL: 'true',
    KAFKA_SASL_MECHANISM: 'scram-sha-512',
    KAFKA_USERNAME: 'flotilla',
    KAFKA_PASSWORD: users.flotilla,
    DATABASE_URL: `postgres://postgres:of-postgres@localhost:${database.port}/postgres?sslmode=verify-full`,
    SCHEMA_REGISTRY_URL: `https://localhost:${secureRegistry.port}${new URL(registry).pathname}`,
    ...newSecretKeyVariable(),
  })
})
afterAll(async () => {
  await platform?.close()
  await Promise.all([kafka?.close(), postgres?.close(), ...proxies.map((proxy) => proxy.close())])
  certificates?.remove()
})

/** A client of Kafka as a user. */
function clientAs(username: keyof typeof users, password: string = users[username]): Kafka {
  return new Kafka({
    brokers: kafka.brokers,
    clientId: username,
    ssl: { ca: readFileSync(certificates.authority) },
    sasl: { mechanism: 'scram-sha-512', username, password },
    retry: { retries: 0 },
    logLevel: logLevel.NOTHING,
  })
}

async function asking<T>(client: Kafka, work: (admin: ReturnType<Kafka['admin']>) => Promise<T>): Promise<T> {
  const admin = client.admin()
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

test('the platform does all its work with its own rights, and grows its topics', {
  timeout: 300_000,
}, async () => {
  await platform.fill('first', async ({ command }) => {
    const doctor = await command<{ checks: { check: string; status: string }[] }>('doctor')
    expect(doctor.checks.filter(({ status }) => status !== 'ok')).toEqual([])
    await command('rebuild', 'vectors')
  })
  const grow = (topic: string) =>
    platform.command<{ physical_name: string }>('topics', 'grow', topic, '--partitions', '24')
  expect((await grow('hub.records')).physical_name).toBe('hub.records.e2')
  expect((await grow('fleet.events')).physical_name).toBe('fleet.events')
})

test('a reader reads its topic in its new epoch, and keeps positions in its own groups', async () => {
  const config = {
    'security.protocol': 'SASL_SSL',
    'sasl.mechanism': 'SCRAM-SHA-512',
    'sasl.username': 'reports',
    'sasl.password': users.reports,
    'ssl.ca.location': certificates.authority,
    'group.id': 'reports-notes',
  }
  const records = await readWithPython({ brokers: kafka.brokers, registry }, { 'hub.records.e2': {} }, config)
  const goals = records.filter(({ key }) => key.startsWith('goal/')).map(({ value }) => value)
  expect(goals).toMatchObject([{ title: 'Goal of first' }])
  await asking(clientAs('reports'), async (admin) => {
    const partitions = [{ partition: 0, offset: '1' }]
    await admin.setOffsets({ groupId: 'reports-notes', topic: 'hub.records.e2', partitions })
    const [kept] = await admin.fetchOffsets({ groupId: 'reports-notes', topics: ['hub.records.e2'] })
    expect(kept!.partitions.find(({ partition }) => partition === 0)!.offset).toBe('1')
  })
})

test('it cannot write, commit for another group, or see another topic', async () => {
  const reader = clientAs('reports')
  const producer = reader.producer()
  await producer.connect()
  const sent = producer.send({ topic: 'hub.records.e2', messages: [{ key: 'note/1', value: null }] })
  await expect(sent).rejects.toThrow(/not authorized/i)
  await producer.disconnect()
  const group = { groupId: 'note-indexer', topic: 'hub.records.e2' }
  const positions = () =>
    asking(new Kafka({ brokers: kafka.unsecured, logLevel: logLevel.NOTHING }), async (admin) =>
      admin.fetchOffsets({ groupId: group.groupId, topics: [group.topic] }),
    )
  const before = await positions()
  await asking(reader, async (admin) => {
    await expect(
      admin.setOffsets({ ...group, partitions: [{ partition: 0, offset: '0' }] }),
    ).rejects.toThrow()
    const seen = (await admin.listTopics()).filter((topic) => !topic.startsWith('__'))
    expect(seen).toEqual(['hub.records.e2'])
  })
  expect(await positions()).toEqual(before)
  for (const topic of ['vectors.progress', 'hub.records.dead-letters', 'audit.events']) {
    const asked = asking(reader, (admin) => admin.fetchTopicOffsets(topic))
    await expect(asked).rejects.toThrow(/not authorized/i)
  }
})

test('without the password, the certificate or rights nobody gets in', async () => {
  await expect(asking(clientAs('reports', 'wrong'), (admin) => admin.listTopics())).rejects.toThrow(/SASL/)
  const unknown = new pg.Client({
    connectionString: `postgres://postgres:wrong@localhost:${proxies[0]!.port}/postgres`,
    ssl: { ca: readFileSync(certificates.authority) },
  })
  await expect(unknown.connect()).rejects.toThrow(/password/)
  // This process does not know the authority.
  const registryAddress = `https://localhost:${proxies[1]!.port}`
  await expect(fetch(registryAddress, { signal: AbortSignal.timeout(5_000) })).rejects.toThrow()
})

test('the rights of the page are for every topic and group of the catalogue', () => {
  const page = readFileSync(new URL('../../docs/reading-topics.md', import.meta.url), 'utf8')
  const namesOf = (kind: string) =>
    [...page.matchAll(new RegExp(`--${kind} (\\S+)`, 'g'))].map(([, name]) => name!)
  const covered = (name: string, prefixes: string[]) => prefixes.some((prefix) => name.startsWith(prefix))
  const ofTopics = namesOf('topic').filter((name) => name.endsWith('.'))
  expect(catalog.filter(({ name }) => !covered(name, ofTopics))).toEqual([])
  const groups = catalog.flatMap(({ readers }) =>
    readers.flatMap((reader) => ('group' in reader ? [reader.group] : [])),
  )
  expect(groups.filter((group) => !covered(group, namesOf('group')))).toEqual([])
})
