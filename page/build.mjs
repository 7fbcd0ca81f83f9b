// Bundles page/src into src/spherepair/app/page, with a hash of the sources in index.html: a test compares it.
import { createHash } from "node:crypto";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "..", "src", "spherepair", "app", "page");

/** Hash of everything that decides what the bundle is: names and contents, in the order of the names. */
async function hashOfSources() {
  const found = await readdir(join(here, "src"), { recursive: true, withFileTypes: true });
  const inside = found.filter((f) => f.isFile()).map((f) => relative(here, join(f.parentPath, f.name)));
  const names = [...inside.map((n) => n.replaceAll("\\", "/")), "build.mjs", "package.json", "package-lock.json"];
  const hash = createHash("sha256");
  for (const name of names.sort()) {
    hash.update(`${name}\n`).update(await readFile(join(here, name)));
  }
  return hash.digest("hex");
}

/** Licenses of the packages that are part of the bundle. */
async function licenses() {
  const { dependencies } = JSON.parse(await readFile(join(here, "package.json"), "utf8"));
  const texts = Object.keys(dependencies).sort().map(async (name) => {
    const folder = join(here, "node_modules", name);
    const file = (await readdir(folder)).find((f) => /^licen[cs]e/i.test(f));
    const text = await readFile(join(folder, file), "utf8");
    return `${name} ${dependencies[name]}\n\n${text.trim()}\n`;
  });
  return (await Promise.all(texts)).join(`\n${"-".repeat(72)}\n\n`);
}

await rm(target, { recursive: true, force: true });
await mkdir(join(target, "assets"), { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx" },
  outdir: join(target, "assets"),
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
});
const html = await readFile(join(here, "src", "index.html"), "utf8");
await writeFile(join(target, "index.html"), html.replace("HASH_OF_SOURCES", await hashOfSources()));
await writeFile(join(target, "assets", "licenses.txt"), await licenses());
