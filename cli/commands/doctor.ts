/** `flotilla doctor`: what is configured, reachable and wrong, and what to do. */

import { statfsSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Command as Program } from 'commander'
import { engineSettings, openEngines } from '#engines/open.ts'
import { loadConfig } from '#lib/config.ts'
import { AppError, describeError } from '#lib/errors.ts'
import { type Check, doctorOperation, pingEngines } from '#operations/doctor.ts'
import { readAddresses } from '#runtime/addresses.ts'
import type { EngineName } from '#runtime/service.ts'
import { choicesOf, homeOf } from '#runtime/settings.ts'
import { type Cli, describe, exitRefused } from '../cli.ts'
import { execute } from '../execute.ts'
import { createOutput, table } from '../output.ts'

const diskBytesMin = 1024 ** 3
const answerTimeoutMs = 3_000
/** Engines that are away would be waited for; a doctor says so instead. */
const openTimeoutMs = 15_000

export function registerDoctor(program: Program, cli: Cli): void {
  const doctor = program
    .command('doctor')
    .description('what is configured, reachable and wrong, and what to do')
  describe(doctor, 'flotilla doctor').action(async ({ json }: { json?: boolean }) => {
    const checks = await examine(cli)
    const failed = checks.filter((check) => check.status === 'fail').length
    console.log(json ? JSON.stringify({ ok: failed === 0, checks }) : render(checks))
    if (failed > 0) cli.setExitCode(exitRefused)
  })
}

async function examine(cli: Cli): Promise<Check[]> {
  const checks = [checkNode()]
  try {
    checks.push(...checkConfiguration(cli), ...checkHome(homeOf(cli.env)))
  } catch (error) {
    // Without a sound configuration nothing can be opened.
    return [...checks, failedCheck('configuration', error, 'Mend the environment variables that it names.')]
  }
  checks.push(...(await checkAddresses(homeOf(cli.env))))
  const away = (await pingDistributed(cli)).filter((check) => check.status === 'fail')
  // What waits for them would only wait.
  if (away.length > 0) return [...checks, ...away]
  const signal = AbortSignal.any([cli.signal, AbortSignal.timeout(openTimeoutMs)])
  try {
    checks.push(
      ...(await execute(doctorOperation, {}, { env: cli.env, output: createOutput(() => {}), signal })),
    )
  } catch (error) {
    checks.push(failedCheck('engines', error, 'Mend what it names, then ask again.'))
  }
  return checks
}

/** Distributed engines can be asked by anyone; the embedded ones belong to the running platform. */
async function pingDistributed(cli: Cli): Promise<Check[]> {
  const { createLog } = await import('#runtime/log.ts')
  const choices = choicesOf(cli.env)
  const asked: EngineName[] = ['eventLog', 'schemaRegistry', 'vectors', 'relational', 'mirror', 'embedder']
  const opened = await openEngines({
    settings: loadConfig(engineSettings, cli.env),
    needs: asked.filter((engine) => !choices[engine].embedded),
    directory: homeOf(cli.env),
    schemasDirectory: fileURLToPath(new URL('../../schemas/', import.meta.url)),
    clientId: 'flotilla-doctor',
    log: createLog({ level: 'silent' }),
  })
  try {
    return await pingEngines(opened.engines, choices)
  } finally {
    await opened.close()
  }
}

function failedCheck(check: string, error: unknown, advice: string): Check {
  const found = error instanceof AppError ? error.message : describeError(error)
  return { check, status: 'fail', found, advice }
}

function checkNode(): Check {
  const found = `Node ${process.versions.node}`
  if (Number(process.versions.node.split('.')[0]) >= 24) return { check: 'runtime', status: 'ok', found }
  return { check: 'runtime', status: 'fail', found, advice: 'Run `npm ci`: it brings Node 24.' }
}

function checkConfiguration(cli: Cli): Check[] {
  // The local embedder is no choice: it is always there.
  const { localEmbedder: _, ...choices } = choicesOf(cli.env)
  return Object.entries(choices).map(([engine, { driver, embedded, variable }]) => {
    const where = embedded ? `embedded (${variable} names another)` : driver
    return { check: `configured ${engine}`, status: 'ok', found: where }
  })
}

function checkHome(home: string): Check[] {
  const check = 'data directory'
  const stats = statSync(home, { throwIfNoEntry: false })
  if (!stats) return [{ check, status: 'ok', found: `${home} is made at the first start` }]
  if ((stats.mode & 0o077) !== 0) {
    const found = `${home} can be read by other users`
    return [{ check, status: 'fail', found, advice: `chmod 700 ${home}` }]
  }
  const disk = statfsSync(home)
  const free = disk.bavail * disk.bsize
  const found = `${home}, ${Math.round(free / 1024 ** 2)} MiB free`
  if (free >= diskBytesMin) return [{ check, status: 'ok', found }]
  return [{ check, status: 'warn', found, advice: 'Make room: the log and the points are kept there.' }]
}

/** Asks every interface that says it runs. */
async function checkAddresses(home: string): Promise<Check[]> {
  const file = readAddresses(home)
  if (!file) return [{ check: 'platform', status: 'ok', found: 'nothing runs on this data directory' }]
  const interfaces = Object.entries(file).filter(([name]) => name !== 'pid')
  return Promise.all(
    interfaces.map(async ([name, url]): Promise<Check> => {
      try {
        const answer = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(answerTimeoutMs) })
        if (answer.ok) return { check: name, status: 'ok', found: `${url}, process ${file.pid}` }
        return { check: name, status: 'warn', found: `${url} is not ready`, advice: 'Wait, or read its log.' }
      } catch (error) {
        return failedCheck(name, error, `Process ${file.pid} does not answer at ${url}: start it anew.`)
      }
    }),
  )
}

const signs = { ok: 'ok', warn: 'WARN', fail: 'FAIL' }

function render(checks: Check[]): string {
  const rows = checks.map(({ check, status, found, advice }) => [
    signs[status],
    check,
    advice ? `${found}\n-> ${advice}` : found,
  ])
  return table(['', 'check', 'found'], rows)
}
