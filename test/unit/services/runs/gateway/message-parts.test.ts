/** The parts of a message: known kinds pass unchanged, all others are refused at their place. */

import { describe, expect, it } from 'vitest'
import type { AppError } from '#lib/errors.ts'
import { checkParts } from '#services/runs/gateway/message-parts.ts'
import { checkedMessage } from '#services/runs/gateway/requests.ts'

const data = Buffer.from('a file').toString('base64')
const mebibyte = 1024 * 1024

function faultOf(parts: Record<string, unknown>[]): AppError {
  try {
    checkParts(parts, 'newMessage/parts')
  } catch (error) {
    return error as AppError
  }
  throw new Error('they were taken')
}

describe('parts', () => {
  it.each<[string, Record<string, unknown>]>([
    ['text', { text: 'hello' }],
    ['nulls along with it', { text: 'hello', inlineData: null, function_call: null, thought: null }],
    ['bytes', { inlineData: { mimeType: 'image/png', data, displayName: 'a.png' } }],
    ['bytes in snake_case', { inline_data: { mime_type: 'image/png', data } }],
    ['no bytes', { inlineData: { mimeType: 'text/plain', data: '' } }],
    ['bytes without padding', { inlineData: { mimeType: 'image/png', data: 'YQ' } }],
    ['the alphabet of URLs', { inlineData: { mimeType: 'image/png', data: '-_-_' } }],
    ['a field along with bytes', { inlineData: { mimeType: 'video/mp4', data }, videoMetadata: { fps: 1 } }],
    ['a file', { fileData: { fileUri: 'gs://a/b', mimeType: 'application/pdf' } }],
    ['a file in snake_case', { file_data: { file_uri: 'gs://a/b' } }],
    ['a response', { functionResponse: { id: '1', name: 'ask', response: { confirmed: true } } }],
    ['a response in snake_case', { function_response: { name: 'ask', response: {} } }],
  ])('%s: taken as they are', (_, part) => {
    const before = structuredClone(part)
    const { parts } = checkedMessage({ parts: [part] }, 'newMessage')
    expect(parts).toEqual([before])
    expect(parts[0]).toBe(part)
  })

  it.each<[string, Record<string, unknown>[], string, string]>([
    ['nothing', [{}], '/0', 'must be a part with text, inlineData, fileData or functionResponse'],
    ['a call', [{ functionCall: { name: 'x' } }], '/0', 'must be a part with text, inlineData'],
    ['code', [{ executable_code: { code: 'x' } }], '/0', 'must be a part with text, inlineData'],
    ['a kind that nobody knows', [{ text: 'a' }, { audio: {} }], '/1', 'must be a part with text'],
    ['two kinds', [{ text: 'a', fileData: { fileUri: 'x' } }], '/0', 'one of text or fileData, in a part'],
    [
      'one kind twice',
      [{ inlineData: { mimeType: 'a', data }, inline_data: { mime_type: 'a', data } }],
      '/0',
      'one of inlineData or inline_data',
    ],
    ['a kind and a call', [{ text: 'a', functionCall: {} }], '/0', 'one of text or functionCall'],
    ['blank texts alone', [{ text: ' ' }, { text: '' }], '', 'at least one part with text, inlineData'],
    ['a number', [{ text: 7 }], '/0/text', 'must be a text'],
    ['bytes that are a text', [{ inlineData: data }], '/0/inlineData', 'must be an object'],
    ['no type', [{ inlineData: { data } }], '/0/inlineData/mimeType', 'is required'],
    ['no data', [{ inline_data: { mime_type: 'a' } }], '/0/inline_data/data', 'is required'],
    ['data that is none', [{ inlineData: { mimeType: 'a', data: 'a b=' } }], '/0/inlineData/data', 'base64'],
    ['two alphabets', [{ inlineData: { mimeType: 'a', data: '+_+_' } }], '/0/inlineData/data', 'base64'],
    ['half a byte', [{ inlineData: { mimeType: 'a', data: 'YQAAA' } }], '/0/inlineData/data', 'base64'],
    ['wrong padding', [{ inlineData: { mimeType: 'a', data: 'YQ=' } }], '/0/inlineData/data', 'base64'],
    ['a file nowhere', [{ fileData: { mimeType: 'a' } }], '/0/fileData/fileUri', 'is required'],
    ['a type that is none', [{ fileData: { fileUri: 'x', mimeType: 1 } }], '/0/fileData/mimeType', 'a text'],
    ['no name', [{ functionResponse: { response: {} } }], '/0/functionResponse/name', 'is required'],
    [
      'a response that is a text',
      [{ functionResponse: { name: 'x', response: 'yes' } }],
      '/0/functionResponse/response',
      'must be an object',
    ],
  ])('%s: refused at its place', (_, parts, path, message) => {
    const { code, errors } = faultOf(parts)
    expect(code).toBe('validation_failed')
    expect(errors).toEqual([{ path: `/newMessage/parts${path}`, message: expect.stringContaining(message) }])
  })
})

describe('their size', () => {
  const bytes = (size: number) => ({
    inlineData: { mimeType: 'a/b', data: Buffer.alloc(size, 7).toString('base64') },
  })

  it('is a mebibyte of bytes in all, besides the text', () => {
    const text = { text: 'x'.repeat(32 * 1024 - 100) }
    expect(checkParts([bytes(mebibyte), text], 'parts')).toHaveLength(2)
    expect(checkParts([bytes(mebibyte / 2), bytes(mebibyte / 2), text], 'parts')).toHaveLength(3)
    for (const parts of [[bytes(mebibyte + 1)], [bytes(mebibyte), bytes(1)]]) {
      expect(faultOf(parts)).toMatchObject({ code: 'payload_too_large', message: /1048576/ })
    }
  })

  it.each<[string, Record<string, unknown>]>([
    ['a file', { fileData: { fileUri: `gs://${'x'.repeat(32 * 1024)}` } }],
    ['a response', { functionResponse: { name: 'a', response: { a: 'x'.repeat(32 * 1024) } } }],
    ['a name', { inlineData: { mimeType: 'a', data: '', displayName: 'x'.repeat(32 * 1024) } }],
    ['an unknown field', { text: 'a', other: 'x'.repeat(32 * 1024) }],
    ['texts', { text: 'ü'.repeat(16 * 1024 + 1) }],
  ])('%s: counted as text is', (_, part) => {
    expect(faultOf([part]).code).toBe('payload_too_large')
  })

  it('is looked at in steps that grow with the length', () => {
    const hostile = { inlineData: { mimeType: 'a', data: `${'A'.repeat(1_400_000)}!` } }
    const started = performance.now()
    expect(faultOf([hostile]).code).toBe('validation_failed')
    expect(performance.now() - started).toBeLessThan(2_000)
  })
})
