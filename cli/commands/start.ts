/** `flotilla start`: all services in one process, or those that are named. */

import { existsSync } from 'node:fs'
import type { Command as Program } from 'commander'
import type { Environment } from '#lib/config.ts'
import { createControlHandler } from '#operations/control-handler.ts'
import { operations } from '#operations/list.ts'
import { createLog, logLevel } from '#runtime/observe/log.ts'
import { homeOf } from '#runtime/start/settings.ts'
import { type RunningPlatform, startPlatform } from '#runtime/start/start.ts'
import { firstAdminEmail, passwordFile } from '#services/access/people/first-admin.ts'
import { services } from '#services/index.ts'
import { migrationFolders } from '#services/migrations.ts'
import { type Cli, exitDone } from '../cli.ts'
import { line, print } from '../output.ts'

/** A stop that takes longer than this is cut off; the drain of a worker that has one comes on top. */
const stopMsMax = 10_000

export function registerStart(program: Program, cli: Cli): void {
  program
    .command('start')
    .argument('[service...]', `of: ${services.map((service) => service.name).join(', ')}; none starts all`)
    .description('run the platform in this process until SIGTERM or Ctrl-C')
    .addHelpText(
      'after',
      `\nServices:\n${services.map((service) => `  ${service.name.padEnd(18)} ${service.purpose}`).join('\n')}` +
        '\n\nExample:\n  $ flotilla start\n  $ flotilla start vector-writer audit-writer',
    )
    .action((names: string[]) => start(names, cli))
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
      print: (text) => print(line`${text}`),
      control: createControlHandler(operations),
      signal,
    })
    drainMs = running.drainMs
    showConsole(running, env)
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

/** Where people go first, and with what. */
function showConsole({ addresses }: RunningPlatform, env: Environment): void {
  const { base_url: url } = addresses
  if (url === undefined) return
  // What browsers use, where a proxy is in front.
  print(line`console ${(env.MAIN_API_URL || url).replace(/\/$/, '')}/console/`)
  const file = passwordFile(homeOf(env))
  if (existsSync(file)) print(line`first admin ${firstAdminEmail}, one-time password in ${file}`)
}
