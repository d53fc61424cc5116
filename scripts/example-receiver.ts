/** A receiver of webhooks to try out and to copy: `npx node scripts/example-receiver.ts 7001 [--secret whsec_…]`. */

import { createServer } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { parseArgs } from 'node:util'
import { createReceiver } from '#client/webhook-receiver.ts'
import { oneLine } from '#lib/terminal-text.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  // `refuse` names an agent whose events fail here, to see what becomes of them.
  options: { secret: { type: 'string', multiple: true }, refuse: { type: 'string' } },
})
const port = Number(positionals[0] ?? 7001)
const receiver = createReceiver({ secrets: values.secret ?? null })

const server = createServer(async (request, response) => {
  const received = await receiver.receive(request.headers, await buffer(request), (event, delivery) => {
    if (event.agent === values.refuse) throw new Error('it cannot be handled')
    const { sequence, attempt, gap, replay } = delivery
    const notes = [
      gap && `after a gap through ${gap.through}`,
      attempt > 1 && 'retried',
      replay && 'replayed',
    ]
    const { event: kind, agent, task_id } = event
    show([sequence, kind, agent, task_id, notes.filter(Boolean).join(', ')])
  })
  if (received.what !== 'handled') show([request.headers['x-sequence'], received.what])
  response.writeHead(received.status).end()
})
/** Callers choose these texts: nothing in them acts on the terminal. */
function show(texts: unknown[]): void {
  console.log(oneLine(texts.join(' ')))
}

server.listen(port, '127.0.0.1', () => console.log(`listens on http://127.0.0.1:${port}`))
