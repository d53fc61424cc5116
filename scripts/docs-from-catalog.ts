/** Writes docs/topics.md from the catalogue; with `--check` it only says whether the page is up to date. */

import { fileURLToPath } from 'node:url'
import { catalog } from '#topics/catalog.ts'
import { type RuleSection, readingRules, recordHeaders, type TopicPromise } from '#topics/promises.ts'
import type { Reader, Topic } from '#topics/topic.ts'
import { writeOrCheck } from './made-page.ts'

const day = 86_400_000

type PublicTopic = Topic & { public: TopicPromise }

/** The page as Markdown. */
export function topicsPage(topics: readonly Topic[]): string {
  const open = topics.filter(isPublic)
  const internal = topics.filter((topic) => !isPublic(topic))
  return [
    '# Topics',
    '',
    'Made from `topics/` by `npm run docs:topics`: do not edit.',
    '',
    'Every record that crosses the log belongs to one of these topics. Six are public: other systems may build on them, and',
    'the first half of this page is what they can rely on. How to read them from Python, Java or a shell, and with which',
    'rights, is in [reading-topics.md](reading-topics.md). The same in machine-readable form is AsyncAPI 3 at',
    '`GET /api/v1/asyncapi.json` of the main API, with a page at `/api/v1/asyncapi`.',
    '',
    'Without Kafka, and on the embedded log, the same records come decoded over HTTP: `GET /api/v1/log/topics/{topic}/records`, by',
    'page or as a stream ([main-api.md](main-api.md#records)). [sinks.md](sinks.md) copies topics into files and tables. Whole',
    'programs that keep a copy of the notes are `docs/examples/notes_copy.py` (HTTP) and `docs/examples/notes_copy_kafka.py`.',
    '',
    '## Rules of all public topics',
    '',
    ...readingRules.flatMap(sectionOf),
    '### Headers',
    '',
    '| header | says |',
    '|---|---|',
    ...Object.entries(recordHeaders).map(([name, says]) => `| \`${name}\` | ${says} |`),
    '',
    '## Public topics',
    '',
    ...tableOf(open),
    '',
    ...open.flatMap(promiseOf),
    '## Internal topics',
    '',
    'They may change with any release.',
    '',
    ...tableOf(internal),
    '',
    '## Who writes and reads them',
    '',
    '```mermaid',
    'flowchart LR',
    ...topics.flatMap(arrowsOf),
    '```',
    '',
  ].join('\n')
}

function isPublic(topic: Topic): topic is PublicTopic {
  return topic.public !== undefined
}

function sectionOf({ title, rules }: RuleSection): string[] {
  return [`### ${title}`, '', ...rules.map((rule) => `- ${rule}`), '']
}

function promiseOf(topic: PublicTopic): string[] {
  const { key, keyExample, order, repeats, tombstones } = topic.public
  return [
    `### ${topic.name}`,
    '',
    `${capital(topic.purpose)}.`,
    '',
    `- Key: ${key}. For example \`${keyExample}\`.`,
    `- Order ${order}`,
    `- Repeats: ${repeats}`,
    `- Null values: ${tombstones ?? 'none.'}`,
    `- Headers: ${headersOf(topic.public)}.`,
    `- Kept: ${keptOf(topic)}. Grows ${topic.cleanup === 'compact' ? 'into a new epoch' : 'in place'}.`,
    '',
  ]
}

function headersOf({ headers }: TopicPromise): string {
  const own = Object.entries(headers).map(([name, where]) => `\`${name}\` ${where}`)
  return ['those of every record', ...own].join('; ')
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1)
}

function tableOf(topics: readonly Topic[]): string[] {
  return [
    '| topic | key | carries | schema | partitions | kept | written by | read by |',
    '|---|---|---|---|---|---|---|---|',
    ...topics.map(rowOf),
  ]
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
