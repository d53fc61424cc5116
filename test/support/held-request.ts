/** A request whose body never comes: the gateway keeps it open until it is dropped. */

import { connect } from 'node:net'

export interface HeldRequest {
  /** The status, when it was answered all the same. */
  status(): number | undefined
  /** Breaks the connection. */
  drop(): void
}

/** Sends the head of a search and no byte of its body. */
export function holdRequest(vectorUrl: string, key: string): HeldRequest {
  const { hostname, port } = new URL(vectorUrl)
  let answer = ''
  const socket = connect(Number(port), hostname, () => {
    const head = ['POST /v1/vectors/search HTTP/1.1', `host: ${hostname}`, `authorization: Bearer ${key}`]
    socket.write([...head, 'content-type: application/json', 'content-length: 100', '', ''].join('\r\n'))
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
