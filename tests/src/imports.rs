//! The imports between the files of a crate, from their `use` declarations.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::{Attribute, Item, UseTree};

use crate::repository::{files, root};

/// A module's path, such as `run::folder::lock`. The crate's root is the empty path.
pub type Module = Vec<String>;

/// A `use` declaration: the name that it imports (`*` for all), and its path.
type Use = (String, Vec<String>);

/// The imports of a crate between its files. Tests are left out.
#[derive(Debug)]
pub struct Imports {
    modules: BTreeSet<Module>,
    /// Each importing and imported module.
    pub pairs: BTreeSet<(Module, Module)>,
    /// Each module that imports from a module around it, and that one.
    pub upward: BTreeSet<(Module, Module)>,
}

/// Modules that import each other in a circle.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Circle {
    /// The module that holds the children.
    pub parent: Module,
    /// The children, each with its submodules.
    pub modules: BTreeSet<String>,
    /// Whether one of them has submodules.
    pub has_folder: bool,
    /// The imports between them.
    pub imports: Vec<String>,
}

impl Imports {
    /// Reads the crate with its sources in `folder`, relative to the repository's root.
    pub fn of_crate(folder: &str) -> Self {
        let mut uses: BTreeMap<Module, Vec<Use>> = BTreeMap::new();
        for path in files(folder, &[".rs"]) {
            let module = module(path.strip_prefix(root().join(folder)).unwrap());
            if module.iter().any(|name| name == "tests") {
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            let file = syn::parse_file(&source)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let found = uses.entry(module).or_default();
            for item in &file.items {
                if let Item::Use(declaration) = item
                    && !is_test(&declaration.attrs)
                {
                    flatten(&declaration.tree, &[], found);
                }
            }
        }
        let (mut pairs, mut upward) = (BTreeSet::new(), BTreeSet::new());
        for (module, paths) in &uses {
            let targets = paths
                .iter()
                .filter_map(|(_, path)| resolve(module, path, &uses, 0));
            for target in targets.filter(|target| !target.starts_with(module)) {
                let pair = (module.clone(), target);
                if module.starts_with(&pair.1) {
                    upward.insert(pair);
                } else {
                    pairs.insert(pair);
                }
            }
        }
        let modules = uses.into_keys().collect();
        Self {
            modules,
            pairs,
            upward,
        }
    }

    /// The circles among the children of each module.
    pub fn circles(&self) -> BTreeSet<Circle> {
        let mut parents: BTreeSet<&[String]> = BTreeSet::new();
        for module in &self.modules {
            parents.extend((0..module.len()).map(|n| &module[..n]));
        }
        let circles = parents.iter().flat_map(|parent| self.circles_in(parent));
        circles.collect()
    }

    fn circles_in(&self, parent: &[String]) -> Vec<Circle> {
        let child = |module: &Module| Some(module.strip_prefix(parent)?.first()?.clone());
        let between = |(from, to): &(Module, Module)| Some((child(from)?, child(to)?));
        let imports = self.pairs.iter().filter_map(between);
        let imports: BTreeSet<(String, String)> = imports.filter(|(a, b)| a != b).collect();
        // The children that one imports, directly or not.
        let reached_from = |name: &String| {
            let (mut reached, mut pending) = (BTreeSet::new(), vec![name]);
            while let Some(name) = pending.pop() {
                let imported = imports.iter().filter(|(from, _)| from == name);
                let imported = imported.map(|(_, to)| to);
                pending.extend(imported.filter(|to| reached.insert(to.to_string())));
            }
            reached
        };
        let names: BTreeSet<&String> = imports.iter().map(|(from, _)| from).collect();
        let circle = |name: &String| {
            let mut modules = reached_from(name);
            modules.retain(|other| reached_from(other).contains(name));
            let is_inside = |m: &Module| child(m).is_some_and(|child| modules.contains(&child));
            let mut all = self.modules.iter();
            let has_folder = all.any(|m| m.len() > parent.len() + 1 && is_inside(m));
            let pairs = self.pairs.iter();
            let imports = pairs
                .filter(|(a, b)| is_inside(a) && is_inside(b) && child(a) != child(b))
                .map(|(from, to)| format!("{} imports {}", from.join("::"), to.join("::")))
                .collect();
            (!modules.is_empty()).then(|| Circle {
                parent: parent.to_vec(),
                imports,
                modules,
                has_folder,
            })
        };
        names.into_iter().filter_map(circle).collect()
    }
}

/// The module that a file of a crate's `src` is.
fn module(path: &Path) -> Module {
    let parts = path.with_extension("");
    let parts = parts.iter().map(|part| part.to_string_lossy().into_owned());
    parts
        .filter(|part| !["lib", "main", "mod"].contains(&&**part))
        .collect()
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let word = attribute.parse_args::<syn::Ident>();
        attribute.path().is_ident("cfg") && word.is_ok_and(|word| word == "test")
    })
}

fn flatten(tree: &UseTree, prefix: &[String], uses: &mut Vec<Use>) {
    let path = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
    match tree {
        UseTree::Path(tree) => flatten(&tree.tree, &path(&tree.ident), uses),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, prefix, uses);
            }
        }
        UseTree::Name(tree) => uses.push((tree.ident.to_string(), path(&tree.ident))),
        UseTree::Rename(tree) => uses.push((tree.rename.to_string(), path(&tree.ident))),
        UseTree::Glob(_) => uses.push(("*".to_owned(), prefix.to_vec())),
    }
}

/// Maximum re-exports that are followed; more would be a circle of re-exports.
const MAX_REEXPORTS: usize = 8;

/// The module of this crate that defines the item at a path: the longest prefix that is a module, after following re-exports. `None` for other crates.
fn resolve(
    module: &[String],
    path: &[String],
    uses: &BTreeMap<Module, Vec<Use>>,
    depth: usize,
) -> Option<Module> {
    let mut at = module.to_vec();
    let mut rest = path;
    while let [name, after @ ..] = rest {
        match name.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => drop(at.pop()),
            _ => break,
        }
        rest = after;
    }
    let rooted = rest.len() < path.len();
    let mut entered = false;
    while let [name, after @ ..] = rest
        && uses.contains_key(&[&at[..], std::slice::from_ref(name)].concat())
    {
        at.push(name.clone());
        (rest, entered) = (after, true);
    }
    // Without a root, the first name is a submodule or another crate.
    if !rooted && !entered {
        return None;
    }
    let exported = rest.first().and_then(|name| {
        let mut names = uses.get(&at)?.iter();
        let (_, path) = names.find(|(imported, _)| imported == name)?;
        let follows = depth < MAX_REEXPORTS && at != module;
        follows.then(|| resolve(&at, path, uses, depth + 1))?
    });
    Some(exported.unwrap_or(at))
}
