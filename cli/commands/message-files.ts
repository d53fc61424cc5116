/** Files that go along with a message: their bytes as parts, with a type by the end of the name. */

import { readFileSync, statSync } from 'node:fs'
import { basename, extname, resolve } from 'node:path'
import { AppError } from '#lib/errors.ts'

/** All files of a message together, as the platform takes them. */
const bytesMax = 1024 * 1024

/** Types that models read. Any other file is bytes. */
const types: Readonly<Record<string, string>> = {
  csv: 'text/csv',
  gif: 'image/gif',
  heic: 'image/heic',
  htm: 'text/html',
  html: 'text/html',
  jpeg: 'image/jpeg',
  jpg: 'image/jpeg',
  json: 'application/json',
  md: 'text/markdown',
  mp3: 'audio/mpeg',
  mp4: 'video/mp4',
  pdf: 'application/pdf',
  png: 'image/png',
  svg: 'image/svg+xml',
  txt: 'text/plain',
  wav: 'audio/wav',
  webm: 'video/webm',
  webp: 'image/webp',
  xml: 'application/xml',
  yaml: 'application/yaml',
  yml: 'application/yaml',
}

export interface MessageFile {
  mimeType: string
  /** Base64. */
  data: string
  displayName: string
}

/** Throws AppError `bad_request` for a file that cannot be read, `payload_too_large` for more than a message holds. */
export function readMessageFiles(paths: readonly string[]): MessageFile[] {
  let bytes = 0
  return paths.map((path) => {
    const content = contentOf(path, bytesMax - bytes)
    bytes += content.length
    const mimeType = types[extname(path).slice(1).toLowerCase()] ?? 'application/octet-stream'
    return { mimeType, data: content.toString('base64'), displayName: basename(path) }
  })
}

/** A large file is refused unread. */
function contentOf(path: string, most: number): Buffer {
  let content: Buffer | undefined
  try {
    if (statSync(path).size <= most) content = readFileSync(path)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'an error'
    throw new AppError('bad_request', `${resolve(path)} cannot be read (${code}).`)
  }
  if (content !== undefined && content.length <= most) return content
  const message = `The files of a message have at most ${bytesMax} bytes in all; ${resolve(path)} is too large.`
  throw new AppError('payload_too_large', message)
}
