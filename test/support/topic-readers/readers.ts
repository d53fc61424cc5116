/** Programs of others that read topics, and the platform's own reader, to be compared with each other. */

import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { openKafkaLog } from '#engines/event-log/kafka.ts'
import type { StoredRecord } from '#engines/event-log/port.ts'
import { openConfluentRegistry } from '#engines/schema-registry/confluent.ts'
import { createCodec } from '#runtime/publish/codec.ts'
import { fence } from '#topics/promises.ts'
import type { Topic } from '#topics/topic.ts'
import { installKafka, installRegistrySerde } from '../../../scripts/servers/install.ts'
import { installConfluentKafka } from '../../../scripts/servers/tools.ts'
import { silentLog } from '../relational.ts'

export interface ReadRecord {
  topic: string
  partition: number
  offset: number
  key: string
  headers: Record<string, string>
  /** Bytes as hex, times as milliseconds. Of a raw reader: all of the value as hex. */
  value: unknown
}

export interface Log {
  brokers: string[]
  /** Base of Confluent's API. */
  registry: string
}

/** Where to begin: physical topic → partition → offset; a partition that is missing is read from its beginning. */
export type Starts = Record<string, Record<number, number>>

/** Only ends a hang. */
const timeoutMs = 180_000

/** As the platform's readers of the topics (by physical name) do; with the values as they lie in the log, too. */
export async function readAsPlatform(
  { brokers, registry }: Log,
  topics: ReadonlyMap<string, Topic>,
  starts: Starts = {},
): Promise<{ decoded: ReadRecord[]; raw: ReadRecord[] }> {
  const eventLog = await openKafkaLog({ brokers, clientId: 'reader', log: silentLog })
  const codec = createCodec(await openConfluentRegistry({ url: registry }))
  const decoded: ReadRecord[] = []
  const raw: ReadRecord[] = []
  try {
    for (const [name, topic] of topics) {
      const stored: StoredRecord[] = []
      const tail = await eventLog.tail({
        topic: name,
        from: 'beginning',
        records: (_partition, records) => void stored.push(...records.filter(({ hidden }) => !hidden)),
      })
      await tail.ready
      await tail.close()
      for (const record of stored) {
        if (record.offset < (starts[name]?.[record.partition] ?? 0)) continue
        const { partition, offset, headers } = record
        const common = { topic: name, partition, offset, key: String(record.key), headers: { ...headers } }
        raw.push({ ...common, value: record.value?.toString('hex') ?? null })
        decoded.push({ ...common, value: plain((await codec.decode(topic, record)).value) })
      }
    }
  } finally {
    await eventLog.close()
  }
  return { decoded, raw }
}

const interpreters: Record<'sh' | 'python' | 'ts', [string, ...string[]]> = {
  sh: ['sh', '-c'],
  python: ['python3', '-c'],
  ts: [process.execPath, '--input-type=module-typescript', '--eval'],
}

/** Runs the blocks of a language in docs/reading-topics.md that name a program; gives what they print. */
export async function runPage(
  { brokers, registry }: Log,
  language: keyof typeof interpreters,
  containing: string,
): Promise<string> {
  const page = readFileSync(new URL('../../../docs/reading-topics.md', import.meta.url), 'utf8')
  const blocks = [...page.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(
    ([, block]) => block!,
  )
  const program = blocks.find((block) => block.includes(containing))
  if (program === undefined) throw new Error(`the page has no ${language} with ${containing}`)
  const env = { BROKERS: brokers.join(','), REGISTRY: registry, PYTHONPATH: await installConfluentKafka() }
  const [runtime, ...options] = interpreters[language]
  const output = await run(runtime, [...options, program], { env })
  return output.toString('utf8')
}

function plain(value: unknown): unknown {
  if (Buffer.isBuffer(value)) return value.toString('hex')
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, plain(field)]))
}

/** confluent-kafka with its Avro deserializer. `config` is added to the consumer's. */
export async function readWithPython(
  { brokers, registry }: Log,
  topics: Starts,
  config: Record<string, string> = {},
): Promise<ReadRecord[]> {
  const program = fileURLToPath(new URL('read.py', import.meta.url))
  const given = JSON.stringify({ brokers: brokers.join(','), registry, config, topics })
  const output = await run('python3', [program], {
    input: given,
    env: { PYTHONPATH: await installConfluentKafka() },
  })
  return linesOf(output).map((line) => JSON.parse(line) as ReadRecord)
}

/** kcat, which knows no schemas: values as they lie in the log. One call for each topic, or for each partition of `starts`. */
export async function readWithKcat(
  { brokers }: Pick<Log, 'brokers'>,
  topics: readonly string[],
  starts: Starts = {},
): Promise<ReadRecord[]> {
  const calls = topics.flatMap((topic) => {
    const places = Object.entries(starts[topic] ?? {}).map(([partition, offset]) => [
      ...['-p', partition, '-o', `${offset}`],
    ])
    return (places.length > 0 ? places : [['-o', 'beginning']]).map((place) => ({ topic, place }))
  })
  const found = await Promise.all(
    calls.map(async ({ topic, place }) => {
      const common = ['-C', '-q', '-e', '-b', brokers.join(','), '-t', topic, ...place]
      // Lengths first: keys and values hold any byte.
      return kcatRecords(topic, await run('kcat', [...common, '-f', '%p %o %K %S %h\n%k%s\n']))
    }),
  )
  return found.flat().filter(({ headers }) => !(fence.header in headers))
}

function kcatRecords(topic: string, output: Buffer): ReadRecord[] {
  const records: ReadRecord[] = []
  for (let at = 0; at < output.length; ) {
    const end = output.indexOf('\n', at)
    const [partition, offset, keyLength, valueLength, ...rest] = output.toString('utf8', at, end).split(' ')
    const keyEnd = end + 1 + Math.max(0, Number(keyLength))
    const valueEnd = keyEnd + Math.max(0, Number(valueLength))
    records.push({
      topic,
      partition: Number(partition),
      offset: Number(offset),
      key: output.toString('utf8', end + 1, keyEnd),
      headers: pairsOf(rest.join(' '), '='),
      value: Number(valueLength) < 0 ? null : output.toString('hex', keyEnd, valueEnd),
    })
    at = valueEnd + 1
  }
  return records
}

/**
 * Kafka's console consumer with the registry's deserializer; it does not print the topic. Reads `count` records,
 * fences among them. The consumer hands its own text for null to the deserializer, which refuses it: of such a record
 * only the key is printed.
 */
export async function readWithJava(
  { brokers, registry }: Log,
  place: { topics: readonly string[] } | { topic: string; partition: number; offset: number },
  count: number,
): Promise<Omit<ReadRecord, 'topic'>[]> {
  const classPath = [await installKafka(), await installRegistrySerde()]
    .map((folder) => `${folder}/*`)
    .join(':')
  const logging = fileURLToPath(new URL('log4j2.properties', import.meta.url))
  const names = (topics: readonly string[]) => topics.map((topic) => topic.replaceAll('.', '\\.')).join('|')
  const where =
    'topics' in place
      ? ['--include', names(place.topics), '--from-beginning']
      : ['--topic', place.topic, '--partition', `${place.partition}`, '--offset', `${place.offset}`]
  const shown = {
    'print.partition': true,
    'print.offset': true,
    'print.headers': true,
    'print.key': true,
    'value.deserializer.apicurio.registry.url': registry.replace(/\/apis\/.*$/, '/apis/registry/v3'),
  }
  const output = await run('java', [
    ...['-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'],
    ...[`-Dlog4j2.configurationFile=${logging}`, '-cp', classPath],
    'org.apache.kafka.tools.consumer.ConsoleConsumer',
    ...['--bootstrap-server', brokers.join(','), ...where],
    ...['--max-messages', `${count}`, '--timeout-ms', '90000', '--skip-message-on-error'],
    ...['--value-deserializer', 'io.apicurio.registry.serde.avro.AvroKafkaDeserializer'],
    ...Object.entries(shown).flatMap(([name, value]) => ['--formatter-property', `${name}=${value}`]),
  ])
  return output
    .toString('utf8')
    .split(/(?=Partition:\d+\tOffset:)/)
    .filter(Boolean)
    .map(javaRecord)
    .filter(({ headers }) => !(fence.header in headers))
}

/** `Partition:1 Offset:2 a:b,c:d key {…}`, between them tabs; without a value there is no end of the line. */
function javaRecord(text: string): Omit<ReadRecord, 'topic'> {
  const [partition = '', offset = '', headers = '', key = '', value = ''] = text.split('\t')
  return {
    partition: Number(partition.slice('Partition:'.length)),
    offset: Number(offset.slice('Offset:'.length)),
    headers: pairsOf(headers, ':'),
    key,
    value: value === '' ? null : JSON.parse(value),
  }
}

/** No value of a header that the platform writes has a comma. */
function pairsOf(text: string, between: string): Record<string, string> {
  if (text === '' || text === 'NO_HEADERS') return {}
  return Object.fromEntries(
    text.split(',').map((pair): [string, string] => {
      const at = pair.indexOf(between)
      return [pair.slice(0, at), pair.slice(at + 1)]
    }),
  )
}

function linesOf(output: Buffer): string[] {
  return output.toString('utf8').split('\n').filter(Boolean)
}

/** The standard output; throws with the other one when the program fails. */
function run(
  command: string,
  args: string[],
  { input, env }: { input?: string; env?: Record<string, string> } = {},
): Promise<Buffer> {
  const child = spawn(command, args, {
    stdio: 'pipe',
    env: { ...process.env, ...env },
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
  })
  const output: Buffer[] = []
  let faults = ''
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk))
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    faults += chunk
  })
  child.stdin.end(input ?? '')
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => {
      if (code === 0) resolve(Buffer.concat(output))
      else reject(new Error(`${command} ended with ${code}: ${faults.slice(-2_000)}`))
    })
  })
}
