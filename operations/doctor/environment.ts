/** Checks what needs no open platform: Node, the configuration, the data directory, interfaces and distributed engines. */

import { existsSync, statfsSync, statSync } from 'node:fs'
import { embeddedFaults, engineSettings } from '#engines/open.ts'
import { type Environment, loadConfig } from '#lib/config.ts'
import { dataDirectoryFault, dataDirectoryOwner, presentPart } from '#lib/data-directory.ts'
import { systemFault } from '#lib/system-faults.ts'
import { type AddressFile, readAddresses, runFile } from '#runtime/start/addresses.ts'
import { holdPorts, portSettings, processSettings, wantedPorts } from '#runtime/start/ingress.ts'
import type { Service } from '#runtime/start/service.ts'
import { choicesOf, homeOf } from '#runtime/start/settings.ts'
import { checkSettings, nearlyOurs, settingsOf } from '#runtime/start/start.ts'
import { loadNodes, nodesFileOf } from '#services/runs/nodes/nodes.ts'
import { loadTargets, targetsFileOf } from '#services/webhooks/targets/targets-file.ts'
import { askDistributed, type Check, failedCheck } from './ping.ts'

const diskBytesMin = 1024 ** 3
/** With less the next writes are refused. */
const diskBytesLeast = 16 * 1024 ** 2
const answerTimeoutMs = 3_000

/**
 * Makes and changes nothing. Fails for whatever would stop `flotilla start` of all services. `openable` says that the
 * engines may be asked for more: by the running platform, or where all are distributed, answer, and have what the
 * platform makes in them. Embedded engines that nobody runs are not opened: opening writes.
 */
export async function checkEnvironment(
  env: Environment,
  { services, migrations }: { services: readonly Service[]; migrations: readonly string[] },
): Promise<{ checks: Check[]; openable: boolean }> {
  const checks = [checkNode(), ...checkUnknown(env, services)]
  try {
    checkSettings({ services, env }, [...services])
  } catch (error) {
    checks.push(failedCheck('configuration', error, 'Correct what it names: the platform does not start.'))
    if (hasFaultyPlaces(env, services)) return { checks, openable: false }
  }
  const home = homeOf(env)
  const embedded = Object.values(choicesOf(env)).some((choice) => choice.embedded)
  checks.push(
    ...checkConfiguration(env),
    ...checkHome(home),
    ...unlessFaulty(() => checkValues(env, services)),
    ...unlessFaulty(() => [checkTargets(env)]),
    ...unlessFaulty(() => [checkNodes(env)]),
  )
  const running = readAddresses(home)
  checks.push(
    ...(running ? await checkAddresses(running) : await checkStart(env, { services, home, embedded })),
  )
  const { faults, isComplete } = await askDistributed(env, migrations)
  checks.push(...faults)
  if (faults.some(({ status }) => status === 'fail')) {
    return { checks: [...checks, ...unasked(faults)], openable: false }
  }
  if (running || !embedded) return { checks, openable: running !== null || isComplete }
  const found =
    'the embedded ones are asked for more while the platform runs: start it, then run the doctor again'
  return { checks: [...checks, { check: 'engines', status: 'ok', found }], openable: false }
}

/** Then nobody can say where engines and interfaces are. */
function hasFaultyPlaces(env: Environment, services: readonly Service[]): boolean {
  try {
    for (const settings of [engineSettings, processSettings, ...services.map(portSettings)]) {
      loadConfig(settings as typeof engineSettings, env)
    }
    return dataDirectoryFault(homeOf(env)) !== null
  } catch {
    return true
  }
}

/** The check of the configuration has named what is faulty here. */
function unlessFaulty(check: () => Check[]): Check[] {
  try {
    return check()
  } catch {
    return []
  }
}

/** Groups and dead letters are in log and database: they can be shown although another engine is away. */
function unasked(faults: Check[]): Check[] {
  const failed = new Set(faults.filter(({ status }) => status === 'fail').map(({ check }) => check))
  if (failed.has('event log') || failed.has('relational engine')) return []
  const advice = '`flotilla lag` and `flotilla dead-letters list` show them meanwhile.'
  return [{ check: 'groups', status: 'warn', found: 'not looked at while an engine has a fault', advice }]
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

/** As `checkTargets`. */
function checkNodes(env: Environment): Check {
  const { path } = nodesFileOf(env)
  const named = loadNodes(env).nodes.map(({ codename, url }) => `${codename} (${new URL(url).host})`)
  const found = named.length === 0 ? `none in ${path}` : `${named.join(', ')} in ${path}`
  return { check: 'nodes of agents', status: 'ok', found }
}

/** Where nothing runs: the data directory and each port must be free, and the files of embedded engines sound. */
async function checkStart(
  env: Environment,
  { services, home, embedded }: { services: readonly Service[]; home: string; embedded: boolean },
): Promise<Check[]> {
  const owner = dataDirectoryOwner(home)
  if (owner !== null) {
    const found = `process ${owner} has the data directory, and no interface answers: another start is refused`
    const advice = `It starts, stops or runs a command: wait. If it stays so, stop process ${owner}.`
    return [{ check: 'platform', status: 'fail', found, advice }]
  }
  if (existsSync(runFile(home, 'addresses.json'))) {
    const found = 'the platform that ran on this data directory was killed, and nothing runs there now'
    return [
      { check: 'platform', status: 'fail', found, advice: 'Start it again: all that it accepted is there.' },
    ]
  }
  const broken = (await embeddedFaults(loadConfig(engineSettings, env), home)).map(({ engine, error }) =>
    failedCheck(`files of ${engine}`, systemFault(error) ?? error, 'The platform does not start with them.'),
  )
  const ports = await Promise.all(
    wantedPorts(services, env).map(async (wanted): Promise<Check> => {
      const { variables, host, port } = wanted
      const check = `port of ${variables.split(' ')[0]}`
      try {
        await (await holdPorts([wanted])).close()
        const where = host ?? '127.0.0.1'
        const found = port === 0 ? `${where}, a free one is taken at the start` : `${where}:${port} is free`
        return { check, status: 'ok', found }
      } catch (error) {
        if (!embedded && (await isPlatformAt(host ?? '127.0.0.1', port))) {
          return {
            check,
            status: 'ok',
            found: `a process of the platform has ${host ?? '127.0.0.1'}:${port}`,
          }
        }
        return failedCheck(check, error, 'Correct that, or stop what has it: the platform does not start.')
      }
    }),
  )
  return [
    { check: 'platform', status: 'ok', found: 'nothing runs on this data directory' },
    ...ports,
    ...broken,
  ]
}

/** True when a process of the platform answers there: on distributed engines each service is one of its own. */
export async function isPlatformAt(host: string, port: number): Promise<boolean> {
  try {
    const url = new URL(`http://${host.includes(':') ? `[${host}]` : host}:${port}/metrics`)
    const answer = await fetch(url, { signal: AbortSignal.timeout(answerTimeoutMs) })
    return (await answer.text()).includes('flotilla_data_directory_free_bytes')
  } catch {
    return false
  }
}

function checkNode(): Check {
  const found = `Node ${process.versions.node}`
  if (Number(process.versions.node.split('.')[0]) >= 24) return { check: 'runtime', status: 'ok', found }
  return { check: 'runtime', status: 'fail', found, advice: 'Install Node 24 or later.' }
}

function checkConfiguration(env: Environment): Check[] {
  // The local embedder is always there, so there is nothing to configure.
  const { localEmbedder: _, ...choices } = choicesOf(env)
  return Object.entries(choices).map(([engine, { driver, embedded, variable }]) => {
    const where = embedded ? `embedded (${variable} names another)` : `${driver}${hostOf(variable, env)}`
    return { check: `configured ${engine}`, status: 'ok', found: where }
  })
}

/** Without what may be secret: user, password, path and query. */
function hostOf(variable: string, env: Environment): string {
  const address = env[variable]
  if (!address) return ''
  if (!URL.canParse(address) || variable === 'KAFKA_BROKERS') return ` at ${address}`
  return ` at ${new URL(address).host || 'this machine'}`
}

function checkHome(home: string): Check[] {
  const check = 'data directory'
  const stats = statSync(home, { throwIfNoEntry: false })
  const me = process.getuid?.()
  if (stats && me && stats.uid !== me) {
    const found = `${home} belongs to another user`
    return [
      {
        check,
        status: 'fail',
        found,
        advice: 'Name a folder of your own in FLOTILLA_HOME, or chown this one.',
      },
    ]
  }
  const open = stats !== undefined && (stats.mode & 0o077) !== 0
  const found = `${home} can be read by other users until the next start`
  const loose: Check[] = open ? [{ check, status: 'warn', found, advice: `chmod 700 ${home}` }] : []
  const disk = statfsSync(presentPart(home))
  return [...loose, diskCheck(stats ? home : `${home} (the first start makes it)`, disk.bavail * disk.bsize)]
}

/** `free` in bytes. */
export function diskCheck(where: string, free: number): Check {
  const check = 'data directory'
  const found = `${where}, ${Math.round(free / 1024 ** 2)} MiB free`
  if (free >= diskBytesMin) return { check, status: 'ok', found }
  const status = free < diskBytesLeast ? 'fail' : 'warn'
  return { check, status, found, advice: 'Free some space: the log and the points are kept there.' }
}

/** Not an interface of its own: one of the main API's paths, or an address of Google's. */
const exchangeUrl = 'identity_exchange_url'

/** Asks every interface that `run/addresses.json` names. */
async function checkAddresses(file: AddressFile): Promise<Check[]> {
  const interfaces = Object.entries(file).filter(([name]) => name !== 'pid' && name !== exchangeUrl)
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
