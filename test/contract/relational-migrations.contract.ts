/** Promises of migrations on every relational driver. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { describe, expect, onTestFinished, test } from 'vitest'
import { migrate, missingMigrations } from '#engines/relational/migrate.ts'
import { type Relational, sqlState } from '#engines/relational/port.ts'
import { migrationFolders } from '#services/migrations.ts'
import type { RelationalHarness } from './relational-harness.ts'

const log = pino({ level: 'silent' })

export function describeMigrations(harness: RelationalHarness): void {
  describe('migrations', () => {
    async function open(): Promise<Relational> {
      const relational = await harness.open()
      onTestFinished(() => relational.close())
      return relational
    }
    const existsTable = async (relational: Relational) =>
      (await relational.query(`select to_regclass('public.platform_migrations') as name`)).rows[0]?.name !=
      null
    const applied = async (relational: Relational) =>
      (
        await relational.query<{ name: string }>('select name from platform_migrations order by name')
      ).rows.map(({ name }) => name)

    test('the platform’s own are applied once, also by many at the same time', async () => {
      const relational = await open()
      await Promise.all(Array.from({ length: 5 }, () => migrate(relational, log, migrationFolders)))
      await migrate(relational, log, migrationFolders)
      expect((await applied(relational))[0]).toBe('001-platform.sql')
      expect((await relational.query('select * from platform.agents')).rows).toEqual([])
    })

    test('new files are applied in order, each as a whole or not at all', async () => {
      const relational = await open()
      const folder = migrations({
        '001-a.sql': 'create table a (n int); insert into a values (1);',
        '002-b.sql': 'insert into a values (2); create table b (n int); select * from nowhere;',
        'README.md': 'not a migration',
      })
      expect(await missingMigrations(relational, [folder])).toEqual(['001-a.sql', '002-b.sql'])
      expect(await existsTable(relational)).toBe(false)
      const fault = await migrate(relational, log, [folder]).catch((error: unknown) => error)
      expect(sqlState(fault)).toBe('42P01')
      expect(await applied(relational)).toEqual(['001-a.sql'])
      expect((await relational.query('select n from a')).rows).toEqual([{ n: 1 }])
      writeFileSync(join(folder, '002-b.sql'), 'create table b (n int)')
      writeFileSync(join(folder, '010-c.sql'), 'alter table b add column m int')
      expect(await missingMigrations(relational, [folder])).toEqual(['002-b.sql', '010-c.sql'])
      await migrate(relational, log, [folder])
      expect(await applied(relational)).toEqual(['001-a.sql', '002-b.sql', '010-c.sql'])
      expect(await missingMigrations(relational, [folder])).toEqual([])
    })

    test('several folders are applied in one order, by their numbers', async () => {
      const relational = await open()
      const first = migrations({ '001-a.sql': 'create table a (n int)', '003-c.sql': 'create table c (b b)' })
      const second = migrations({ '002-b.sql': 'create table b (a a)' })
      await migrate(relational, log, [first, second])
      expect(await applied(relational)).toEqual(['001-a.sql', '002-b.sql', '003-c.sql'])
    })

    test('a number that two folders use stops the start, naming both files', async () => {
      const relational = await open()
      const first = migrations({ '001-a.sql': 'create table a (n int)' })
      const second = migrations({ '001-b.sql': 'create table b (n int)' })
      await expect(migrate(relational, log, [first, second])).rejects.toThrow('001-a.sql and 001-b.sql')
    })

    test('a file that changed after it was applied stops the start, by name', async () => {
      const relational = await open()
      const folder = migrations({ '001-a.sql': 'create table a (n int)' })
      await migrate(relational, log, [folder])
      writeFileSync(join(folder, '001-a.sql'), 'create table a (n bigint)')
      await expect(migrate(relational, log, [folder])).rejects.toMatchObject({
        code: 'invalid_configuration',
        message: expect.stringContaining('001-a.sql'),
      })
    })

    test('quotes, comments and dollar quotes hold semicolons', async () => {
      const relational = await open()
      const folder = migrations({
        '001-a.sql': `-- first; second
          create function f() returns int language plpgsql as $$ begin return 1; end; $$;
          create table a (t text default 'x;y');`,
      })
      await migrate(relational, log, [folder])
      expect((await relational.query('select f() as n')).rows).toEqual([{ n: 1 }])
    })
  })
}

function migrations(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'fl-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  return folder
}
