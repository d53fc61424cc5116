/** The Python client: its bodies compared with their serialisation, and its calls with those of qdrant-client on one Qdrant. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { hnsw } from '#engines/vectors/collections.ts'
import { installPythonClientTools } from '../scripts/servers/python.ts'
import { findQdrant, openQdrant } from '../scripts/servers/qdrant.ts'
import type { Bench, BenchRow } from './bench.ts'
import { createHome, inClone, startPlatform } from './started-platform.ts'

const agentId = 'bench'
const peer = 'qdrant-client==1.20.0'
const folder = fileURLToPath(new URL('../packages/client-python', import.meta.url))

export const pythonClientBench: Bench = {
  name: 'python-client',
  purpose:
    'the Python client: processor time of the body of 1,000 points compared with its serialisation alone; an upsert of 1,000 points and the p95 of a search through gateway and log compared with qdrant-client (REST) on the same Qdrant',
  async run(report) {
    const executable = findQdrant()
    if (executable === null) throw new Error('this bench needs a qdrant executable on the PATH')
    const python = await installPythonClientTools(undefined, [peer])
    const qdrant = await openQdrant(executable)
    const home = createHome()
    try {
      const engines = { QDRANT_URL: qdrant.url, QDRANT_GRPC_URL: qdrant.grpcUrl }
      const platform = await startPlatform(home, inClone, engines)
      try {
        // Without limits.
        await platform.run('agents', 'provision', agentId, '--tier', 'infra-architect')
        report('  the platform serves')
        const { vectorUrl } = platform
        return rowsOf(await measure(python, { home: home.path, vectorUrl, qdrantUrl: qdrant.url }))
      } finally {
        await platform.stop()
      }
    } finally {
      await qdrant.close()
      home.remove()
    }
  },
}

interface Pair {
  client: number
  peer: number
  ratio: number
}

interface Measured {
  bodies: Record<'pydantic-core' | 'orjson' | 'numpy', Pair & { bytes: number }>
  upserts: Pair
  searches: Pair
}

async function measure(
  python: string,
  { home, vectorUrl, qdrantUrl }: { home: string; vectorUrl: string; qdrantUrl: string },
): Promise<Measured> {
  const given = { home, agent_id: agentId, vector_url: vectorUrl, qdrant_url: qdrantUrl, hnsw }
  const child = spawn(python, [join(folder, 'bench', 'against_qdrant.py'), JSON.stringify(given)], {
    env: { ...process.env, PYTHONPATH: join(folder, 'src'), PYTHONDONTWRITEBYTECODE: '1' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [[code], printed] = await Promise.all([once(child, 'close'), text(child.stdout)])
  if (code !== 0) throw new Error(`the program of the bench ended with code ${code}`)
  return JSON.parse(printed) as Measured
}

function rowsOf({ bodies, upserts, searches }: Measured): BenchRow[] {
  const body = (
    what: string,
    alone: string,
    { client, peer, ratio, bytes }: Measured['bodies']['orjson'],
  ) => ({
    what: `body of 1,000 points, ${what}`,
    unit: 'ms',
    measured: client,
    peer: { what: alone, value: peer },
    ratio,
    bar: { max: 1.5 },
    note: `processor time; ${(bytes / 1e6).toFixed(1)} MB`,
  })
  const call = (what: string, { client, peer, ratio }: Pair) => ({
    what,
    unit: 'ms',
    measured: client,
    peer: { what: 'qdrant-client', value: peer },
    ratio,
    note: 'no bar: it crosses gateway and log, the peer does not',
  })
  return [
    body('lists, pydantic-core', 'to_json alone', bodies['pydantic-core']),
    body('lists, orjson', 'orjson alone', bodies.orjson),
    body('float32 arrays of numpy, orjson', 'orjson alone', bodies.numpy),
    call('upsert of 1,000 points, each waits until applied', upserts),
    call('p95 of a search, 1 client', searches),
  ]
}
