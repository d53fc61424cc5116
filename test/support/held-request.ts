/** A request whose body never comes: the gateway keeps it open until it is dropped. */

import { connect } from 'node:net'

export interface HeldRequest {
  /** The status, when it was answered all the same. */
  status(): number | undefined
  /** Breaks the connection. */
  drop(): void
}

export interface HeldBody {
  path?: string
  /** Its announced length. */
  length?: number
  /** The part of it that is sent. */
  sent?: string
}

/** Sends the head of a request, by default a search, and not its whole body. */
export function holdRequest(
  vectorUrl: string,
  key: string,
  { path = '/v1/vectors/search', length = 100, sent = '' }: HeldBody = {},
): HeldRequest {
  const { hostname, port } = new URL(vectorUrl)
  let answer = ''
  const socket = connect(Number(port), hostname, () => {
    const head = [`POST ${path} HTTP/1.1`, `host: ${hostname}`, `authorization: Bearer ${key}`]
    const fields = ['content-type: application/json', `content-length: ${length}`]
    socket.write([...head, ...fields, '', sent].join('\r\n'))
  })
  socket.setEncoding('utf8').on('data', (text: string) => {
    answer += text
  })
  // The gateway may have been killed.
  socket.on('error', () => {})
  return {
    status: () => (answer === '' ? undefined : Number(answer.split(' ')[1])),
    drop: () => socket.destroy(),
  }
}
