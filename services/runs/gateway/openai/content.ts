/** The content of a chat's message, as parts of a message to an agent. */

import type { Part } from '../../state/types.ts'
import { faulty } from '../message-parts.ts'

const kinds = 'text, image_url, input_audio or file'

/** Throws AppError `validation_failed` for parts of other kinds. `at`: the path of the content. */
export function partsOf(content: unknown, at: string): Part[] {
  if (typeof content === 'string') return [{ text: content }]
  if (!Array.isArray(content)) throw faulty(at, 'must be a text or a list of parts')
  return content.map((part, n) => partOf(record(part), `${at}/${n}`))
}

/** The words of a message of the history; what else it has is named. */
export function wordsOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  const words = content.map((part) => {
    const { type, text, refusal } = record(part)
    if (typeof text === 'string') return text
    if (typeof refusal === 'string') return refusal
    return typeof type === 'string' ? `[${type.slice(0, 32)}]` : ''
  })
  return words.filter((one) => one !== '').join('\n\n')
}

function partOf(part: Record<string, unknown>, at: string): Part {
  switch (part.type) {
    case 'text':
      if (typeof part.text !== 'string') throw faulty(`${at}/text`, 'must be a text')
      return { text: part.text }
    case 'image_url': {
      const url = typeof part.image_url === 'string' ? part.image_url : record(part.image_url).url
      return fileAt(url, `${at}/image_url/url`)
    }
    case 'input_audio': {
      const { data, format } = record(part.input_audio)
      if (typeof data !== 'string') throw faulty(`${at}/input_audio/data`, 'is required: the bytes as base64')
      if (format !== 'wav' && format !== 'mp3') throw faulty(`${at}/input_audio/format`, 'wav or mp3')
      return { inlineData: { mimeType: format === 'mp3' ? 'audio/mpeg' : 'audio/wav', data } }
    }
    case 'file': {
      const { file_data: data, filename } = record(part.file)
      const displayName = typeof filename === 'string' && filename !== '' ? { displayName: filename } : {}
      return { inlineData: { ...dataOf(data, `${at}/file/file_data`), ...displayName } }
    }
    default:
      throw faulty(`${at}/type`, kinds)
  }
}

function fileAt(url: unknown, at: string): Part {
  if (typeof url !== 'string' || !URL.canParse(url)) throw faulty(at, 'must be a URL')
  return isDataUrl(url) ? { inlineData: dataOf(url, at) } : { fileData: { fileUri: url } }
}

function isDataUrl(url: string): boolean {
  return /^data:/i.test(url)
}

/** Type and bytes of a data URL. */
function dataOf(url: unknown, at: string): { mimeType: string; data: string } {
  const rule = 'must be a data URL with base64: data:image/png;base64,…'
  if (typeof url !== 'string' || !isDataUrl(url)) throw faulty(at, rule)
  const comma = url.indexOf(',')
  const [mimeType = '', ...parameters] = url.slice('data:'.length, Math.max(comma, 0)).split(';')
  const isBase64 = parameters.some((one) => one.trim().toLowerCase() === 'base64')
  if (comma < 0 || !isBase64 || mimeType === '') throw faulty(at, rule)
  return { mimeType, data: url.slice(comma + 1) }
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}
