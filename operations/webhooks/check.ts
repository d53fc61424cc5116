/** Checks a targets file as the platform reads it, without a running platform. */

import type { Environment } from '#lib/config.ts'
import { AppError } from '#lib/errors.ts'
import { redact } from '#services/access/secrets/redact.ts'
import { backoffWithin, type TargetTraffic, targetLoad } from '#services/webhooks/deliver/load-watch.ts'
import {
  loadTargets,
  type WebhookTarget,
  type WebhookTargets,
} from '#services/webhooks/targets/targets-file.ts'

/** Above this share of busy time an ordered lane takes long to catch up after any delay. */
const loadMax = 0.8

export interface CheckResult {
  ok: boolean
  file: string
  faults: { line: number | null; place: string; message: string }[]
  targets: ReturnType<typeof checkedOf>[]
  warnings: { target: string; message: string }[]
}

export function checkTargetsFile(path: string, env: Environment, traffic: TargetTraffic): CheckResult {
  const found: CheckResult = { ok: true, file: path, faults: [], targets: [], warnings: [] }
  try {
    const loaded = loadTargets(path, env)
    const targets = [...loaded.targets.values()]
    return {
      ...found,
      targets: targets.map((target) => checkedOf(target, loaded)),
      warnings: targets.flatMap((target) => warningsOf(target, traffic)),
    }
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'invalid_configuration') throw error
    return { ...found, ok: false, faults: faultsOf(error) }
  }
}

function faultsOf(error: AppError): CheckResult['faults'] {
  if (!error.errors) return [{ line: null, place: '', message: error.message }]
  const faults = error.errors.map(({ path, message }) => {
    const [, line, place = ''] = /^line (\d+)(?:, (.*))?$/.exec(path) ?? []
    return { line: line === undefined ? null : Number(line), place, message }
  })
  return faults.sort((a, b) => (a.line ?? 0) - (b.line ?? 0))
}

/** A URL may hold a token. */
function checkedOf(target: WebhookTarget, { secrets }: WebhookTargets) {
  return {
    target: target.name,
    url: redact(target.url.href, secrets),
    events: target.events,
    agents: target.agents,
    ordering: target.ordering,
    retry: target.retry,
    backoff_ms: target.backoffMs,
    signed: target.signingSecrets.length > 0,
  }
}

function warningsOf(target: WebhookTarget, traffic: TargetTraffic): CheckResult['warnings'] {
  // How the rate divides among the lanes of agents is not known beforehand.
  if (target.ordering === 'agent') return []
  const load = targetLoad(target, traffic)
  if (load <= loadMax) return []
  const { ratePerS, failedShare, callMs } = traffic
  const enough = backoffWithin(loadMax, target.retry, traffic)
  const assumed = `at ${ratePerS} events a second, ${failedShare * 100} % failed attempts and ${callMs} ms a call`
  const advice =
    enough === null ? 'the calls alone take too long: consider ordering: agent' : `at most ${enough} would do`
  const what = load >= 1 ? 'the target falls behind without end' : 'the target hardly catches up'
  return [
    {
      target: target.name,
      message: `backoff_ms ${target.backoffMs}: ${assumed} ${what} (its lane is busy ${Math.round(load * 100)} % of the time); ${advice}`,
    },
  ]
}
