/** Stops the start where TLS to an engine can never work as it is set up; an engine that is away is waited for, as always. */

import { type EngineSettings, enginesOverTls } from '#engines/open.ts'
import { withTimeout } from '#lib/backoff.ts'
import { deadlines } from '#lib/deadlines.ts'
import { AppError } from '#lib/errors.ts'
import { probeTls, type TlsEngine, tlsFault } from '#lib/tls.ts'
import type { Engines } from './service.ts'

/** A refusal comes at once behind the handshake. */
const probeMs = 1_000

/** Asks each open engine that is reached over TLS once. Throws AppError `invalid_configuration`, which names all faults. */
export async function refuseUntrusted(engines: Partial<Engines>, settings: EngineSettings): Promise<void> {
  const faults = await Promise.all(
    enginesOverTls(settings).map(async (tls) => {
      const engine = engines[tls.engine]
      const fault = engine ? await faultOf(engine, tls) : null
      return fault ? [`TLS to the engine of ${tls.variable} fails. ${fault.found} ${fault.advice}`] : []
    }),
  )
  if (faults.flat().length > 0) throw new AppError('invalid_configuration', faults.flat().join('\n'))
}

async function faultOf(
  engine: { ping(timeoutMs?: number): Promise<unknown> },
  { certificateSettings, address }: TlsEngine,
) {
  const { pingMs } = deadlines.engine
  try {
    await withTimeout(engine.ping(pingMs), pingMs, () => new Error('no answer in time'))
    return null
  } catch (error) {
    const fault = tlsFault(error, certificateSettings)
    if (fault || !address) return fault
    return tlsFault(await probeTls(address, probeMs), certificateSettings)
  }
}
