/** `flotilla sink`: copies a public topic into files or a table of Postgres, each record once. */

import { resolve } from 'node:path'
import { Option, type Command as Program } from 'commander'
import { AppError } from '#lib/errors.ts'
import { plural } from '#lib/plural.ts'
import { type SinkResult, sinkJsonlOperation, sinkPostgresOperation } from '#operations/sink/sink.ts'
import { catalog, topicByName } from '#topics/catalog.ts'
import { type Cli, describe, numberReader } from '../cli.ts'
import { line } from '../output.ts'

interface SinkOptions {
  from: string
  follow: boolean
  skipExpired?: boolean
  json?: boolean
}

const mebibyte = 1024 * 1024

const megabytes = numberReader(1, 999_999)

export function registerSink(program: Program, cli: Cli): void {
  const sink = program
    .command('sink')
    .description('copy a public topic into files or tables, each record once')
  registerJsonl(sink, cli)
  registerPostgres(sink, cli)
}

function registerJsonl(sink: Program, cli: Cli): void {
  const jsonl = common(
    sink.command('jsonl'),
    'into files of JSON lines, which are added to and never changed',
  )
    .requiredOption('--to <folder>', 'where the files are')
    .option('--rotate-mb <size>', 'begin another file when one is larger', megabytes, 64)
  describe(jsonl, 'flotilla sink jsonl hub.records --to ./copies --no-follow').action(
    async (topic: string, { to, rotateMb, ...options }: SinkOptions & { to: string; rotateMb: number }) => {
      const args = { ...argsOf(topic, options), folder: resolve(to), rotateBytes: rotateMb * mebibyte }
      await cli.run(sinkJsonlOperation, args, printing(args, options, resolve(to)))
    },
  )
}

interface PostgresOptions extends SinkOptions {
  url?: string
  table?: string
  mode?: 'append' | 'state'
  name?: string
}

function registerPostgres(sink: Program, cli: Cli): void {
  const postgres = common(sink.command('postgres'), 'into a table of any Postgres')
    .option('--url <url>', 'postgres://…; default: SINK_POSTGRES_URL, where it is in no list of processes')
    .option('--table <name>', 'default: the name of the topic, with _ for each dot')
    .addOption(
      new Option(
        '--mode <mode>',
        'a row for each record, or the newest of each key (compacted topics; their default)',
      ).choices(['append', 'state']),
    )
    .option('--name <name>', 'of the sink; default: the table')
  describe(postgres, 'flotilla sink postgres hub.records --table notes_and_goals').action(
    async (topic: string, { url, table, mode, name, ...options }: PostgresOptions) => {
      const target = table ?? topic.replaceAll('.', '_')
      const args = {
        ...argsOf(topic, options),
        url: urlOf(url ?? cli.env.SINK_POSTGRES_URL),
        table: target,
        name: name ?? target,
        mode: mode ?? (topicByName(topic)?.cleanup === 'compact' ? ('state' as const) : ('append' as const)),
      }
      await cli.run(sinkPostgresOperation, args, printing(args, options, target))
    },
  )
}

function common(command: Program, description: string): Program {
  const topics = catalog.filter((topic) => topic.public).map((topic) => topic.name)
  return command
    .argument('<topic>', `of: ${topics.join(', ')}`)
    .description(description)
    .option('--from <position>', 'where an empty copy begins: beginning, end or a position', 'beginning')
    .option('--no-follow', 'stop after what is there now (--json always does)')
    .option('--skip-expired', 'go on where records were removed before they were copied')
}

function argsOf(topic: string, { from, follow, skipExpired = false, json }: SinkOptions) {
  return { topic, from, follow: follow && !json, skipExpired }
}

/** Never in a message: it may hold a password. */
function urlOf(url: string | undefined): string {
  if (url !== undefined && /^postgres(ql)?:\/\//.test(url)) return url
  throw new AppError('bad_request', 'Name the database by --url postgres://… or by SINK_POSTGRES_URL.')
}

function printing({ follow: endless }: { follow: boolean }, { json }: SinkOptions, where: string) {
  return {
    json,
    endless,
    render: ({ topic, records, position }: SinkResult) =>
      line`${plural(records, 'record')} of ${topic} copied to ${where}, which is at ${position ?? 'its beginning'}`,
  }
}
