/** Checks what needs no open platform: Node, the configuration, the data directory, interfaces and distributed engines. */

import { statfsSync, statSync } from 'node:fs'
import { engineSettings, openEngines } from '#engines/open.ts'
import { type Environment, loadConfig } from '#lib/config.ts'
import { schemasDirectory } from '#runtime/codec.ts'
import { createLog } from '#runtime/log.ts'
import type { EngineName } from '#runtime/service.ts'
import { choicesOf, homeOf } from '#runtime/settings.ts'
import { readAddresses } from '#runtime/start/addresses.ts'
import { type Check, failedCheck } from './check.ts'
import { pingEngines } from './ping.ts'

const diskBytesMin = 1024 ** 3
/** With less the next writes are refused. */
const diskBytesLeast = 16 * 1024 ** 2
const answerTimeoutMs = 3_000

/** `openable` is false where opening the platform would fail, or would wait for an engine that is away. */
export async function checkEnvironment(env: Environment): Promise<{ checks: Check[]; openable: boolean }> {
  const checks = [checkNode()]
  try {
    checks.push(...checkConfiguration(env), ...checkHome(homeOf(env)))
  } catch (error) {
    checks.push(failedCheck('configuration', error, 'Correct the environment variables that it names.'))
    return { checks, openable: false }
  }
  checks.push(...(await checkAddresses(homeOf(env))))
  const away = (await pingDistributed(env)).filter((check) => check.status === 'fail')
  return { checks: [...checks, ...away], openable: away.length === 0 }
}

/** Distributed engines can be reached from here; the embedded ones belong to the running platform. */
async function pingDistributed(env: Environment): Promise<Check[]> {
  const choices = choicesOf(env)
  const asked: EngineName[] = ['eventLog', 'schemaRegistry', 'vectors', 'relational', 'mirror', 'embedder']
  const opened = await openEngines({
    settings: loadConfig(engineSettings, env),
    needs: asked.filter((engine) => !choices[engine].embedded),
    directory: homeOf(env),
    schemasDirectory,
    clientId: 'flotilla-doctor',
    log: createLog({ level: 'silent' }),
  })
  try {
    return await pingEngines(opened.engines, choices)
  } finally {
    await opened.close()
  }
}

function checkNode(): Check {
  const found = `Node ${process.versions.node}`
  if (Number(process.versions.node.split('.')[0]) >= 24) return { check: 'runtime', status: 'ok', found }
  return { check: 'runtime', status: 'fail', found, advice: 'Run `npm ci`: it installs Node 24.' }
}

function checkConfiguration(env: Environment): Check[] {
  // The local embedder is always there, so there is nothing to configure.
  const { localEmbedder: _, ...choices } = choicesOf(env)
  return Object.entries(choices).map(([engine, { driver, embedded, variable }]) => {
    const where = embedded ? `embedded (${variable} names another)` : driver
    return { check: `configured ${engine}`, status: 'ok', found: where }
  })
}

function checkHome(home: string): Check[] {
  const check = 'data directory'
  const stats = statSync(home, { throwIfNoEntry: false })
  if (!stats) return [{ check, status: 'ok', found: `${home} will be created at the first start` }]
  if ((stats.mode & 0o077) !== 0) {
    const found = `${home} can be read by other users`
    return [{ check, status: 'fail', found, advice: `chmod 700 ${home}` }]
  }
  const disk = statfsSync(home)
  const free = disk.bavail * disk.bsize
  const found = `${home}, ${Math.round(free / 1024 ** 2)} MiB free`
  if (free >= diskBytesMin) return [{ check, status: 'ok', found }]
  const status = free < diskBytesLeast ? 'fail' : 'warn'
  return [{ check, status, found, advice: 'Free some space: the log and the points are kept there.' }]
}

/** Asks every interface that `run/addresses.json` names. */
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
        return failedCheck(name, error, `Process ${file.pid} does not answer at ${url}: restart it.`)
      }
    }),
  )
}
