/** `flotilla start`: all services in one process, or those that are named. */

import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command as Program } from 'commander'
import type { Environment } from '#lib/config.ts'
import { dataDirectoryFault, dataDirectoryInUse, dataDirectoryOwner } from '#lib/data-directory.ts'
import { AppError } from '#lib/errors.ts'
import { makeFolder } from '#lib/files.ts'
import { createControlHandler } from '#operations/control-handler.ts'
import { operations } from '#operations/list.ts'
import { createLog, logLevel } from '#runtime/observe/log.ts'
import { consoleUrlOf } from '#runtime/start/addresses.ts'
import { homeOf } from '#runtime/start/settings.ts'
import { type RunningPlatform, startPlatform } from '#runtime/start/start.ts'
import { firstAdminEmail, passwordFile } from '#services/access/people/first-admin.ts'
import { services } from '#services/index.ts'
import { migrationFolders } from '#services/migrations.ts'
import { type Cli, exitDone } from '../cli.ts'
import { helpWidth, line, print } from '../output.ts'

/** A stop that takes longer than this is cut off; the drain of a worker that has one comes on top. */
const stopMsMax = 10_000

export function registerStart(program: Program, cli: Cli): void {
  program
    .command('start')
    .argument('[service...]', `of: ${services.map((service) => service.name).join(', ')}; none starts all`)
    .description('run the platform in this process until SIGTERM or Ctrl-C')
    .option('--temporary', 'remove the data directory at the end; it must be new or empty')
    .addHelpText(
      'after',
      ({ command }) =>
        `\nServices:\n${servicesList(command)}` +
        '\n\nExample:\n  $ flotilla start\n  $ flotilla start vector-writer audit-writer',
    )
    .action((names: string[], { temporary }: { temporary?: boolean }) => {
      if (temporary) removeAtExit(homeOf(cli.env))
      return start(names, cli)
    })
}

function servicesList(command: Program): string {
  const help = command.createHelp()
  help.prepareContext({ helpWidth: helpWidth(process.stdout) })
  const longest = Math.max(...services.map(({ name }) => name.length))
  return services.map(({ name, purpose }) => help.formatItem(name, longest, purpose, help)).join('\n')
}

/** Runs until the signal aborts; then drains, usually ten seconds at most, and ends the process with code 0. */
async function start(names: string[], cli: Cli): Promise<void> {
  const { env, signal } = cli
  const log = createLog({ level: logLevel(env, 'info'), terminal: process.stderr.isTTY })
  const stopped = new Promise<void>((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
  let drainMs = 0
  void stopped.then(() => setTimeout(() => process.exit(exitDone), stopMsMax + drainMs).unref())
  try {
    const running = await startPlatform({
      migrations: migrationFolders,
      services,
      chosen: names,
      env,
      log,
      // People have the banner instead.
      print(text) {
        if (!process.stdout.isTTY) print(line`${text}`)
      },
      control: createControlHandler(operations),
      signal,
    })
    drainMs = running.drainMs
    print(process.stdout.isTTY ? banner(running, env) : consoleLines(running, env))
    await stopped
    log.info('process.stopping')
    await running.close()
    log.info('process.stopped')
  } catch (error) {
    // Stopped while it waited for engines that are away: that is not an error.
    if (!signal.aborted) throw error
  }
  process.exit(exitDone)
}

/** Lies in a data directory that `start --temporary` made, and may remove. */
const temporaryMark = 'temporary'

/** Also after a failed start. One that was killed leaves the folder to the next start on it. */
function removeAtExit(home: string): void {
  const fault = dataDirectoryFault(home)
  if (fault) throw fault
  const owner = dataDirectoryOwner(home)
  if (owner !== null) throw dataDirectoryInUse(home, owner)
  const mark = join(home, temporaryMark)
  makeFolder(home)
  if (!existsSync(mark) && readdirSync(home).length > 0) {
    throw new AppError(
      'bad_request',
      `--temporary would remove ${home} at the end, and there are files in it. Name a new folder in FLOTILLA_HOME, or start without --temporary.`,
    )
  }
  writeFileSync(mark, '')
  process.on('exit', () => rmSync(home, { recursive: true, force: true, maxRetries: 5 }))
}

const interfaces: readonly (readonly [name: string, address: string])[] = [
  ['main API', 'base_url'],
  ['vector gateway', 'vector_url'],
  ['hub', 'hub_url'],
  ['run gateway', 'agent_gateway_url'],
  ['webhook relay', 'webhook_url'],
]

/** For people at a terminal: where to go first, and how to stop. */
function banner({ addresses }: RunningPlatform, env: Environment): string {
  const rows: [string, string][] = []
  const url = consoleUrlOf(addresses, env)
  if (url !== undefined) rows.push(['console', `${url}  ${signIn(homeOf(env))}`])
  for (const [name, address] of interfaces) {
    if (addresses[address] !== undefined) rows.push([name, addresses[address]])
  }
  if (rows.length > interfaces.length) rows.push(['next', 'npx flotilla tour, in another terminal'])
  return [
    '',
    'Flotilla is ready (Ctrl-C stops it)',
    ...rows.map(([name, text]) => line`  ${name.padEnd(15)} ${text}`),
  ].join('\n')
}

function signIn(home: string): string {
  const file = passwordFile(home)
  if (!existsSync(file)) return 'sign in with your e-mail and password'
  return `sign in as ${firstAdminEmail} with the one-time password ${readFileSync(file, 'utf8').trim()}`
}

/** Where people go first, and with what, for programs that start the platform. */
function consoleLines({ addresses }: RunningPlatform, env: Environment): string {
  const url = consoleUrlOf(addresses, env)
  if (url === undefined || addresses.base_url === undefined) return ''
  const file = passwordFile(homeOf(env))
  const admin = existsSync(file) ? [line`first admin ${firstAdminEmail}, one-time password in ${file}`] : []
  return [line`console ${url}`, ...admin].join('\n')
}
