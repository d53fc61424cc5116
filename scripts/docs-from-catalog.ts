/** Writes docs/topics.md from the catalogue; with `--check` it only says whether the page is up to date. */

import { fileURLToPath } from 'node:url'
import { fenceHeader, fenceKey } from '#engines/event-log/kafka/fence.ts'
import { catalog } from '#topics/catalog.ts'
import type { Reader, Topic } from '#topics/topic.ts'
import { writeOrCheck } from './made-page.ts'

const day = 86_400_000

/** The page as Markdown. */
export function topicsPage(topics: readonly Topic[]): string {
  return [
    '# Topics',
    '',
    'Made from `topics/catalog.ts` by `npm run docs:topics`: do not edit.',
    '',
    'Every record that crosses the log belongs to one of these topics. Values are Avro in the Confluent wire format under',
    'the subject `<topic>-value`; a null value on a compacted topic deletes its key.',
    '',
    `On Kafka a record with the header \`${fenceHeader}\` (key \`${fenceKey}\`, null value) is a fence: the driver writes it`,
    'behind a batch that it gave up. It says nothing; every reader skips it.',
    '',
    '| topic | key | carries | schema | partitions | kept | written by | read by |',
    '|---|---|---|---|---|---|---|---|',
    ...topics.map(rowOf),
    '',
    '```mermaid',
    'flowchart LR',
    ...topics.flatMap(arrowsOf),
    '```',
    '',
  ].join('\n')
}

function rowOf(topic: Topic): string {
  const cells = [
    `\`${topic.name}\``,
    topic.keyedBy,
    topic.purpose,
    `[${topic.schema}](../schemas/${topic.schema}.avsc)`,
    String(topic.partitions),
    keptOf(topic),
    listOf(topic.writers),
    topic.readers.length === 0 ? 'operators' : listOf(topic.readers.map(readerText)),
  ]
  return `| ${cells.join(' | ')} |`
}

function keptOf(topic: Topic): string {
  if (topic.cleanup === 'compact') return 'the last record of each key'
  if (topic.retentionMs === null) return 'until deleted behind its readers'
  const days = topic.retentionMs / day
  return days === 1 ? '1 day' : `${days} days`
}

function readerText(reader: Reader): string {
  if ('group' in reader) {
    return reader.group === reader.service
      ? `${reader.service} (${reader.mode})`
      : `${reader.service} (${reader.mode}, group ${reader.group})`
  }
  return `${reader.service} (every instance, from the ${reader.tail})`
}

function listOf(names: string[]): string {
  return names.join(', ') || 'nobody'
}

function arrowsOf(topic: Topic): string[] {
  const node = `${topic.name.replaceAll('.', '_')}[(${topic.name})]`
  return [
    ...topic.writers.map((writer) => `  ${writer} --> ${node}`),
    ...topic.readers.map((reader) => `  ${node} ${'group' in reader ? '-->' : '-.->'} ${reader.service}`),
  ]
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeOrCheck('topics.md', topicsPage(catalog), 'npm run docs:topics')
}
