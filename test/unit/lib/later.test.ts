/** Which faults of SQL, SQLite and the operating system mean "later". */

import { expect, test } from 'vitest'
import { translateFault } from '#engines/relational/sql-faults.ts'
import { AppError } from '#lib/errors.ts'
import { meansLater } from '#lib/system-faults.ts'
import { publicError } from '#runtime/http/problem.ts'

const fault = (code: string, message = 'text') => Object.assign(new Error(message), { code })
const sqlite = (errcode: number) => Object.assign(fault('ERR_SQLITE_ERROR'), { errcode })

const engine = [
  ...['08000', '08003', '08006', '28P01', '3D000', '25P03'],
  ...['53000', '53100', '53200', '53300', '53400'],
  ...['57P01', '57P02', '57P03', '57P04', '57P05', '58000', '58030'],
]
const statement = ['40001', '40P01', '40003', '55006', '55P03', '57014', '25006', '25P04']
const machine = ['ENOSPC', 'EDQUOT', 'EMFILE', 'ENFILE', 'ENOMEM', 'EIO', 'EAGAIN', 'EBUSY']
const never = [
  '23505',
  '22P02',
  '42P01',
  '42501',
  '54000',
  'XX000',
  'ENOENT',
  'EACCES',
  'EROFS',
  'EPIPE',
  'EPERM',
]

test.each(engine)('SQLSTATE %s: the engine is away', (code) => {
  expect(meansLater(fault(code))).toBe('engine')
  expect(translateFault(fault(code))).toMatchObject({
    code: 'relational_engine_unavailable',
    statusCode: 503,
    retryAfter: 1,
  })
})

test.each(statement)('SQLSTATE %s: other statements are in the way', (code) => {
  expect(meansLater(fault(code))).toBe('statement')
  // Whoever repeats it by itself finds its state.
  const translated = translateFault(fault(code))
  expect(translated).toMatchObject({ name: 'SqlFault', code })
  expect(publicError(translated)).toMatchObject({
    code: 'relational_engine_unavailable',
    statusCode: 503,
    retryAfter: 1,
  })
})

test.each(machine)('%s: the machine has nothing left, wherever it is in the chain of causes', (code) => {
  const wrapped = new AppError('invalid_configuration', 'a file', { cause: fault(code) })
  for (const error of [fault(code), new Error('outer', { cause: fault(code) }), wrapped]) {
    expect(meansLater(error)).toBe('machine')
    expect(publicError(error)).toMatchObject({
      code: 'storage_unavailable',
      statusCode: 503,
      retryAfter: 1,
    })
  }
})

test.each([5, 6, 7, 10, 13, 14, 10 + 3 * 256])('result %d of SQLite means later', (errcode) => {
  expect(meansLater(sqlite(errcode))).toBe('machine')
})

test('faults of Postgres that have no SQLSTATE of their own are known by what they say', () => {
  const says: [string, string, string | null][] = [
    ['XX000', 'could not extend file "base/5/1": Disk quota exceeded', 'engine'],
    ['XX000', 'could not write to file "pg_wal/xlogtemp.1": No space left on device', 'engine'],
    ['42501', 'could not open file "base/5/1": Read-only file system', 'engine'],
    ['XX000', 'tuple concurrently updated', 'statement'],
    ['XX000', 'cache lookup failed for type 0', null],
    ['42501', 'permission denied for table notes', null],
    ['22P02', 'could not extend file "x": No space left on device', null],
  ]
  for (const [code, message, later] of says)
    expect([message, meansLater(fault(code, message))]).toEqual([message, later])
})

test('other faults stay what they are', () => {
  for (const code of never) {
    expect([code, meansLater(fault(code))]).toEqual([code, null])
    expect(publicError(fault(code)).code).toBe('internal_error')
  }
  for (const error of [sqlite(19), null, undefined, 'ENOSPC', new Error('no')])
    expect(meansLater(error)).toBeNull()
  const conflict = new AppError('conflict', 'taken', { cause: fault('ENOSPC') })
  expect(publicError(conflict).code).toBe('conflict')
})
