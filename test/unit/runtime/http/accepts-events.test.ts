/** Which requests ask for events, by the weights of RFC 9110. */

import { expect, test } from 'vitest'
import { acceptsEvents } from '#runtime/http/event-stream.ts'

test.each([
  ['text/event-stream', true],
  ['TEXT/Event-Stream; charset=utf-8', true],
  ['application/json, text/event-stream', true],
  ['text/event-stream, */*;q=0.1', true],
  ['text/event-stream;q=0.5, application/json;q=0.5', true],
  ['application/json, text/event-stream;q=0', false],
  ['application/json, text/event-stream; q=0.1', false],
  ['text/event-stream;q=0', false],
  ['text/event-stream;q=0.9, */*', false],
  ['*/*', false],
  ['text/*', false],
  ['', false],
  [undefined, false],
])('%j: %j', (accept, wanted) => {
  expect(acceptsEvents(accept)).toBe(wanted)
})
