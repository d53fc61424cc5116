/** Signs webhook requests as the platform does. */

import { createHmac } from 'node:crypto'

const key = Buffer.alloc(24, 7)
export const secret = `whsec_${key.toString('base64')}`
/** The time of requests, in seconds. */
export const at = 1_790_000_000

export function signatureOf(id: string, seconds: number | string, body: string, by = key): string {
  return `v1,${createHmac('sha256', by).update(`${id}.${seconds}.${body}`).digest('base64')}`
}

export function headersOf(body: string, signature = signatureOf('msg_1', at, body)) {
  return { 'webhook-id': 'msg_1', 'webhook-timestamp': String(at), 'webhook-signature': signature }
}
