/** Checks what needs no open platform: Node, the configuration, the data directory, interfaces and distributed engines. */

import { existsSync, statfsSync, statSync } from 'node:fs'
import { engineSettings, openEngines } from '#engines/open.ts'
import { type Environment, loadConfig } from '#lib/config.ts'
import { dataDirectoryOwner } from '#lib/data-directory.ts'
import { schemasDirectory } from '#runtime/codec.ts'
import { createLog } from '#runtime/log.ts'
import type { EngineName, Service } from '#runtime/service.ts'
import { choicesOf, homeOf } from '#runtime/settings.ts'
import { type AddressFile, readAddresses } from '#runtime/start/addresses.ts'
import { wantedPorts } from '#runtime/start/ingress.ts'
import { holdPorts } from '#runtime/start/ports.ts'
import { nearlyOurs } from '#runtime/start/unknown-variables.ts'
import { checkSettings, settingsOf } from '#runtime/start.ts'
import { targetsFileOf } from '#services/webhooks/targets/settings.ts'
import { loadTargets } from '#services/webhooks/targets/targets-file.ts'
import { type Check, failedCheck } from './check.ts'
import { pingEngines } from './ping.ts'

const diskBytesMin = 1024 ** 3
/** With less the next writes are refused. */
const diskBytesLeast = 16 * 1024 ** 2
const answerTimeoutMs = 3_000

/**
 * Makes nothing. `openable` is false where opening the platform would fail, would make a data directory, or would wait for
 * an engine that is away. Fails for whatever would stop `flotilla start` of all services.
 */
export async function checkEnvironment(
  env: Environment,
  services: readonly Service[],
): Promise<{ checks: Check[]; openable: boolean }> {
  const checks = [checkNode(), ...checkUnknown(env, services)]
  try {
    checkSettings({ services, env }, [...services])
  } catch (error) {
    checks.push(failedCheck('configuration', error, 'Correct what it names: the platform does not start.'))
    return { checks, openable: false }
  }
  const home = homeOf(env)
  const isThere = existsSync(home)
  checks.push(
    ...checkConfiguration(env),
    ...checkHome(home),
    ...checkValues(env, services),
    checkTargets(env),
  )
  const running = readAddresses(home)
  checks.push(...(running ? await checkAddresses(running) : await checkPorts(env, services, home)))
  const away = (await pingDistributed(env)).filter((check) => check.status === 'fail')
  const embedded = Object.values(choicesOf(env)).some((choice) => choice.embedded)
  return { checks: [...checks, ...away], openable: away.length === 0 && (isThere || !embedded) }
}

function checkUnknown(env: Environment, services: readonly Service[]): Check[] {
  return nearlyOurs(settingsOf(services), env).map(({ variable, meant }) => ({
    check: 'environment',
    status: 'warn',
    found: `${variable} is set, and nothing reads it`,
    advice: `If ${meant} is meant, set that.`,
  }))
}

/** Numbers alone: lifetimes, limits and intervals. Other settings may be secrets. */
function checkValues(env: Environment, services: readonly Service[]): Check[] {
  return services.flatMap(({ name, config }): Check[] => {
    const numbers = Object.entries(loadConfig(config, env)).filter(([, value]) => typeof value === 'number')
    const found = numbers.map(([variable, value]) => `${variable} ${value}`).join(', ')
    return found === '' ? [] : [{ check: `settings of ${name}`, status: 'ok', found }]
  })
}

/** Their names and hosts; paths and queries of their addresses may be secrets. */
function checkTargets(env: Environment): Check {
  const { path, optional } = targetsFileOf(env)
  const { targets } = loadTargets(path, env, { optional })
  const named = [...targets.values()].map(({ name, url }) => `${name} (${url.host})`)
  const found = named.length === 0 ? `none in ${path}` : `${named.join(', ')} in ${path}`
  return { check: 'webhook targets', status: 'ok', found }
}

/** Where nothing runs: each port must be free. */
async function checkPorts(env: Environment, services: readonly Service[], home: string): Promise<Check[]> {
  const owner = dataDirectoryOwner(home)
  if (owner !== null) {
    const found = `process ${owner} has the data directory, and no interface answers yet`
    return [{ check: 'platform', status: 'warn', found, advice: 'It starts, stops or runs a command: wait.' }]
  }
  const ports = await Promise.all(
    wantedPorts(services, env).map(async (wanted): Promise<Check> => {
      const { variables, host, port } = wanted
      const check = `port of ${variables.split(' ')[0]}`
      try {
        await (await holdPorts([wanted])).close()
        const where = `${host ?? '127.0.0.1'}:${port}`
        return {
          check,
          status: 'ok',
          found: port === 0 ? 'a free one is taken at the start' : `${where} is free`,
        }
      } catch (error) {
        return failedCheck(check, error, 'Stop the other server, or choose another port.')
      }
    }),
  )
  return [{ check: 'platform', status: 'ok', found: 'nothing runs on this data directory' }, ...ports]
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
async function checkAddresses(file: AddressFile): Promise<Check[]> {
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
