// Reads a Parquet file with a program that is not ours and prints it as JSON, for exports_test.py:
//   node --input-type=module - hyparquet|arrow-rs|duckdb FILE < parquet_readers.mjs     in the folder of node_modules
//   node --input-type=module - query FILE "SELECT ... FROM 'job.parquet'" < parquet_readers.mjs
// {"reader": "DuckDB v1.5.6", "names": [...], "columns": [[...], ...], "metadata": {...}, "bounds": {...}}. Times are
// microseconds since 1970 as text, missing values null, infinite numbers text.
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'

const [reader, path, words] = process.argv.slice(2)
const version = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version

async function hyparquet() {
  const { parquetMetadata, parquetRead, DEFAULT_PARSERS } = await import('hyparquet')
  const bytes = readFileSync(path)
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)
  const metadata = parquetMetadata(file)
  const names = metadata.schema.slice(1).map((element) => element.name)
  const columns = names.map(() => [])
  await parquetRead({
    file,
    compressors: { GZIP: (input) => new Uint8Array(gunzipSync(input)) },
    parsers: { ...DEFAULT_PARSERS, timestampFromMicroseconds: String },
    rowFormat: 'array',
    onComplete: (rows) => rows.forEach((row) => row.forEach((value, i) => columns[i].push(value ?? null)))
  })
  const pairs = metadata.key_value_metadata.map(({ key, value }) => [key, value])
  return { reader: `hyparquet ${version('hyparquet')}`, names, columns, metadata: Object.fromEntries(pairs) }
}

async function arrowRust() {
  const { readParquet, readSchema } = await import('parquet-wasm/node')
  const { tableFromIPC } = await import('apache-arrow')
  const table = tableFromIPC(readParquet(readFileSync(path)).intoIPCStream())
  const names = table.schema.fields.map((field) => field.name)
  const columns = table.schema.fields.map((field, i) => {
    const vector = table.getChildAt(i)
    if (field.name !== 'time') return Array.from(vector, (value) => value ?? null)
    return vector.data.flatMap((data) => Array.from(data.values, String))
  })
  const types = Object.fromEntries(table.schema.fields.map((field) => [field.name, String(field.type)]))
  return {
    reader: `arrow-rs (parquet-wasm ${version('parquet-wasm')})`, names, columns, types,
    metadata: Object.fromEntries(table.schema.metadata)
  }
}

async function duckdb() {
  const { DuckDBInstance, version: library } = await import('@duckdb/node-api')
  const connection = await (await DuckDBInstance.create(':memory:')).connect()
  const rows = async (query) => (await connection.runAndReadAll(query)).getRowObjects()
  const file = `'${path.replaceAll("'", "''")}'`
  const described = await rows(`DESCRIBE SELECT * FROM read_parquet(${file})`)
  const names = described.map((row) => row.column_name)
  const all = await connection.runAndReadAll(
    `SELECT epoch_us(time)::VARCHAR, * EXCLUDE (time) FROM read_parquet(${file}, file_row_number = true)
     ORDER BY file_row_number`)
  const columns = all.getColumns().slice(0, names.length)
  const metadata = await rows(`SELECT decode(key) AS key, decode(value) AS value FROM parquet_kv_metadata(${file})`)
  const bounds = await rows(
    `SELECT path_in_schema AS name, stats_min_value AS least, stats_max_value AS most, stats_null_count AS nulls,
     row_group_id AS "group", num_values AS count FROM parquet_metadata(${file})`)
  return {
    reader: `DuckDB ${library()}`, names, columns, bounds,
    types: Object.fromEntries(described.map((row) => [row.column_name, row.column_type])),
    metadata: Object.fromEntries(metadata.map(({ key, value }) => [key, value]))
  }
}

/// The rows of a query about 'job.parquet', which is this file.
async function query() {
  const { DuckDBInstance } = await import('@duckdb/node-api')
  const connection = await (await DuckDBInstance.create(':memory:')).connect()
  return (await connection.runAndReadAll(words.replace('job.parquet', path.replaceAll("'", "''")))).getRows()
}

const read = { query, hyparquet, 'arrow-rs': arrowRust, duckdb }[reader]
const plain = (key, value) =>
  typeof value === 'bigint' ? Number(value) : typeof value === 'number' && !Number.isFinite(value) ? String(value) : value
console.log(JSON.stringify(await read(), plain))
