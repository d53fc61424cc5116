/** A local issuer on stores in memory, which several instances may share, and a clock that tests move. */

import pino from 'pino'
import { openLocalIssuer } from '#engines/identity/local.ts'
import type {
  IdentityParts,
  LocalIssuer,
  RefreshRow,
  RefreshStore,
  SigningKeyStore,
} from '#engines/identity/port.ts'

/** Shared by the instances of an installation. */
export interface Installation {
  signingKeys: SigningKeyStore
  refreshTokens: RefreshStore
  /** How often the keys were read. */
  reads(): number
  /** While it is set the stores do not answer. */
  fault: Error | null
}

export function createInstallation(): Installation {
  let stored: string | undefined
  let reads = 0
  let turn: Promise<unknown> = Promise.resolve()
  const rows = new Map<string, RefreshRow>()
  const made: Installation = {
    fault: null,
    reads: () => reads,
    signingKeys: {
      async read() {
        reads += 1
        if (made.fault) throw made.fault
        return stored
      },
      change(work) {
        const changed = turn.then(async () => {
          if (made.fault) throw made.fault
          stored = await work(stored)
          return stored
        })
        turn = changed.catch(() => {})
        return changed
      },
    },
    refreshTokens: {
      async add(row) {
        rows.set(row.hash.toString('hex'), row)
      },
      find: async (hash) => rows.get(hash.toString('hex')),
    },
  }
  return made
}

export const issuerUrl = 'http://127.0.0.1:8081'

export function openInstance(
  { signingKeys, refreshTokens }: Installation,
  parts: Partial<IdentityParts> = {},
): Promise<LocalIssuer> {
  return openLocalIssuer({
    log: pino({ level: 'silent' }),
    customTokenTtlS: 3_600,
    issuer: () => issuerUrl,
    isIssuer: (name) => name === issuerUrl,
    signingKeys,
    refreshTokens,
    mayBuy: async () => true,
    ...parts,
  })
}
