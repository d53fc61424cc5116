/** The bench of the client: what a receiver of webhooks pays for checking a request, next to the bare HMAC of its body. */

import { createHmac } from 'node:crypto'
import { type Bench, median } from '../../../bench/bench.ts'
import { verifyWebhook } from '../src/webhook-signature.ts'

const bodyBytes = 1_024
const requests = 20_000
const rounds = 7

export const clientBench: Bench = {
  name: 'client',
  purpose: 'webhook requests of 1 KB verified, next to the bare HMAC-SHA256 of the same bytes',
  run(report) {
    const key = Buffer.alloc(32, 7)
    const body = Buffer.alloc(bodyBytes, 'x')
    const seconds = String(Math.floor(Date.now() / 1_000))
    const signed = `msg_1.${seconds}.`
    const hmac = () => createHmac('sha256', key).update(signed).update(body).digest()
    const headers = {
      'webhook-id': 'msg_1',
      'webhook-timestamp': seconds,
      'webhook-signature': `v1,${hmac().toString('base64')}`,
    }
    const secrets = [`whsec_${key.toString('base64')}`]
    const ours: number[] = []
    const bare: number[] = []
    for (let round = 0; round <= rounds; round++) {
      const rates = [rateOf(hmac), rateOf(() => verifyWebhook(headers, body, { secrets }))] as const
      // The first round warms up.
      if (round === 0) continue
      bare.push(rates[0])
      ours.push(rates[1])
      report(`  round ${round}: ${Math.round(rates[1])} of ${Math.round(rates[0])} a second`)
    }
    return Promise.resolve([
      {
        what: 'requests of 1 KB verified',
        unit: '/s',
        measured: median(ours),
        peer: { what: 'bare HMAC', value: median(bare) },
        ratio: median(ours.map((rate, i) => rate / bare[i]!)),
        bar: { min: 0.4 },
        note: `median of ${rounds} rounds in turns`,
      },
    ])
  },
}

function rateOf(work: () => unknown): number {
  const startedAt = performance.now()
  for (let i = 0; i < requests; i++) work()
  return requests / ((performance.now() - startedAt) / 1_000)
}
