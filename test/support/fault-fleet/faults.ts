/** The faults of the table in docs/faults.md, in its order. */

import type { FleetFault } from './fault.ts'
import type { FaultFleet } from './fleet.ts'
import type { FleetServer, FleetServers } from './servers.ts'

type Choice = (servers: FleetServers) => FleetServer[]

const killedSeconds = { short: 6, full: 15 }
const slowSeconds = { short: 6, full: 15 }

/** kill -9 of all of them at once, and their start. */
function killed(name: string, choose: Choice, seconds = killedSeconds): FleetFault {
  return {
    name: `${name} killed`,
    seconds,
    async begin({ servers }) {
      await Promise.all(choose(servers).map((server) => server.kill()))
    },
    async heal({ servers }) {
      await Promise.all(choose(servers).map((server) => server.start()))
    },
  }
}

/** Data on the way to these servers comes late, seldom or not at all. */
function badWay(name: string, choose: Choice, harm: (server: FleetServer) => void): FleetFault {
  return {
    name,
    seconds: slowSeconds,
    begin: ({ servers }) => choose(servers).forEach(harm),
    async heal({ servers }) {
      await Promise.all(choose(servers).map(({ way }) => way.mend()))
    },
  }
}

function paused(name: string, pid: (fleet: FaultFleet) => number): FleetFault {
  return {
    name,
    seconds: { short: 10, full: 60 },
    begin: (fleet) => void process.kill(pid(fleet), 'SIGSTOP'),
    heal: (fleet) => void process.kill(pid(fleet), 'SIGCONT'),
  }
}

/** Their volumes take not one byte more; then there is room, and somebody starts again what halted. */
function fullDisk(name: string, nodes: readonly number[]): FleetFault {
  return {
    name,
    seconds: { short: 6, full: 15 },
    needs: ({ volumes }) => volumes.length > 0,
    begin: ({ volumes }) => {
      for (const node of nodes) volumes[node]!.fill()
    },
    async heal({ servers, volumes }) {
      for (const node of nodes) volumes[node]!.free()
      const halted = nodes.map((node) => servers.brokers[node] as FleetServer)
      await Promise.all(halted.map((server) => server.kill()))
      await Promise.all(halted.map((server) => server.start()))
    },
  }
}

const hours = 3_600

/** The target refuses meanwhile, so that events wait for another try when the clock is right again. */
function steppedClock(name: string, platforms: readonly number[], byHours: number): FleetFault {
  const step = (fleet: FaultFleet, seconds: number) => {
    for (const one of platforms) fleet.platforms.platforms[one]!.clock!.step(seconds)
  }
  return {
    name,
    seconds: { short: 6, full: 15 },
    needs: ({ platforms }) => platforms.platforms.every(({ clock }) => clock !== null),
    begin(fleet) {
      step(fleet, byHours * hours)
      fleet.sink.answer = () => ({ status: 503 })
    },
    heal(fleet) {
      step(fleet, 0)
      fleet.sink.answer = () => ({})
    },
  }
}

const broker = (n: number) => (servers: FleetServers) => [servers.brokers[n] as FleetServer]

export const fleetFaults: readonly FleetFault[] = [
  killed('one broker of three', broker(0)),
  killed('two brokers of three', ({ brokers }) => brokers.slice(0, 2)),
  killed('all brokers', ({ brokers }) => brokers),
  killed('Postgres', ({ postgres }) => [postgres]),
  badWay(
    'Postgres slow: 500 ms more each way',
    ({ postgres }) => [postgres],
    ({ way }) => way.slow(500),
  ),
  killed('Qdrant', ({ qdrant }) => [qdrant]),
  badWay(
    'Qdrant slow: 1 s more each way',
    ({ qdrant }) => [qdrant],
    ({ way }) => way.slow(1_000),
  ),
  killed('registry', ({ registry }) => [registry]),
  badWay(
    'registry slow: 2 s more each way',
    ({ registry }) => [registry],
    ({ way }) => way.slow(2_000),
  ),
  paused('one platform of two paused', ({ platforms }) => platforms.platforms[1]!.process.child.pid!),
  badWay(
    'network slow: 100 ms more each way to every server',
    ({ all }) => all,
    ({ way }) => way.slow(100),
  ),
  badWay(
    'network loses 5 % of what is sent to every server',
    ({ all }) => all,
    ({ way }) => way.lose(0.05),
  ),
  badWay('network silent to one broker', broker(1), ({ way }) => way.silence()),
  badWay(
    'network silent to every server',
    ({ all }) => all,
    ({ way }) => way.silence(),
  ),
  steppedClock('clock of both platforms 3 h ahead, then right', [0, 1], 3),
  steppedClock('clock of one platform 3 h behind, then right', [1], -3),
  fullDisk('disk of one broker full', [0]),
  fullDisk('disks of all brokers full', [0, 1, 2]),
]
